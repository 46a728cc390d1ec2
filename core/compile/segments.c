/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "compile/segments.h"

#include <stance/alloc.h>

struct search {
    const struct stance_segment_node *nodes;
    size_t                            n;
    size_t   *fixed;         /* [n+1] sum of the first j nodes */
    size_t   *first, *ended; /* the nodes whose last reader is j: ended[first[j]] to ended[first[j+1]-1] */
    size_t   *kept;          /* [n+1] fewest bytes kept across cuts up to the one before node j */
    size_t   *from;          /* [n+1] the cut before that one */
};

static bool make_lists(struct search *s)
{
    s->fixed = stance_calloc(s->n + 1, sizeof *s->fixed);
    s->first = stance_calloc(s->n + 2, sizeof *s->first);
    s->ended = stance_calloc(s->n + 1, sizeof *s->ended);
    s->kept  = stance_calloc(s->n + 1, sizeof *s->kept);
    s->from  = stance_calloc(s->n + 1, sizeof *s->from);
    if (s->fixed == NULL || s->first == NULL || s->ended == NULL || s->kept == NULL || s->from == NULL)
        return false;
    for (size_t i = 0; i < s->n; i++) {
        s->fixed[i + 1] = s->fixed[i] + s->nodes[i].fixed;
        s->first[s->nodes[i].last + 2]++;
    }
    for (size_t i = 2; i < s->n + 2; i++)
        s->first[i] += s->first[i - 1];
    for (size_t i = 0; i < s->n; i++)
        s->ended[s->first[s->nodes[i].last + 1]++] = i;
    return true;
}

/* Segments that begin at the cut before node @p i: takes better ways to their ends.
 * @return the segment may reach the end of the forward pass */
static bool extend(struct search *s, size_t i, size_t peak)
{
    size_t inside = 0, beside = 0, crossing = 0;

    for (size_t j = i; j < s->n; j++) {
        const struct stance_segment_node *m = &s->nodes[j];

        inside += m->inside;
        beside = m->beside > beside ? m->beside : beside;
        if (s->fixed[j + 1] + s->kept[i] + inside + beside > peak)
            return false;
        crossing += m->crossing;
        for (size_t k = s->first[j]; k < s->first[j + 1]; k++)
            if (s->ended[k] >= i)
                crossing -= s->nodes[s->ended[k]].crossing;
        if (j + 1 < s->n && s->kept[i] + crossing < s->kept[j + 1]) {
            s->kept[j + 1] = s->kept[i] + crossing;
            s->from[j + 1] = i;
        }
    }
    return true;
}

/* Whether the forward pass can be cut so that no more than @p peak bytes live at once. The fewer bytes
 * are kept up to a cut, the better for everything after it, so the fewest are all that is remembered.
 * @param[out] last  first node of the last segment */
static bool fits(struct search *s, size_t peak, size_t *last)
{
    for (size_t j = 0; j <= s->n; j++)
        s->kept[j] = j == 0 ? 0 : SIZE_MAX;
    for (size_t i = 0; i < s->n; i++) {
        if (s->kept[i] != SIZE_MAX && extend(s, i, peak)) {
            *last = i;
            return true;
        }
    }
    return false;
}

stance_status stance_segments_choose(const struct stance_segment_node *nodes, size_t n, bool *kept, size_t *peak,
                                     struct stance_error *err)
{
    struct search s   = { .nodes = nodes, .n = n };
    size_t        low = 0, high = 0, beside = 0, last = 0;
    stance_status status = STANCE_OK;

    if (!make_lists(&s)) {
        status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "segments of %zu nodes", n);
        goto done;
    }
    for (size_t i = 0; i < n; i++) {
        high += nodes[i].fixed + nodes[i].inside;
        beside = nodes[i].beside > beside ? nodes[i].beside : beside;
    }
    high += beside; /* nothing is rebuilt */
    while (high - low > high / 100) {
        size_t middle = low + (high - low) / 2;

        if (fits(&s, middle, &last))
            high = middle;
        else
            low = middle + 1;
    }
    if (n > 0)
        fits(&s, high, &last);
    for (size_t i = 0; i < n; i++)
        kept[i] = i >= last;
    for (size_t cut = last; cut > 0; cut = s.from[cut])
        for (size_t i = s.from[cut]; i < cut; i++)
            kept[i] = nodes[i].last >= cut;
    if (peak != NULL)
        *peak = high;

done:
    stance_free(s.fixed);
    stance_free(s.first);
    stance_free(s.ended);
    stance_free(s.kept);
    stance_free(s.from);
    return status;
}
