/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "compile/segments.h"

#include <stance/alloc.h>

#include <math.h>
#include <stdlib.h>

enum { TRIES = 64 }; /* beginnings of the last segment */

struct search {
    const struct stance_segment_node *nodes;
    size_t                            n;
    size_t   *fixed;         /* [n+1] sum of the first j nodes */
    size_t   *first, *ended; /* the nodes whose last reader is j: ended[first[j]] to ended[first[j+1]-1] */
    size_t   *kept;          /* [n+1] fewest bytes kept across cuts up to the one before node j */
    size_t   *from;          /* [n+1] the cut before that one */
    bool     *ends;          /* [n+1] the last segment may begin with node j */
    size_t   *within;        /* [n] number of the segment, from the end */
    size_t   *room;          /* [n+1] of each segment */
    struct dear { double rate; size_t node; } *dear;
    size_t    n_dear;
};

static bool make_lists(struct search *s)
{
    s->fixed = stance_calloc(s->n + 1, sizeof *s->fixed);
    s->first = stance_calloc(s->n + 2, sizeof *s->first);
    s->ended = stance_calloc(s->n + 1, sizeof *s->ended);
    s->kept  = stance_calloc(s->n + 1, sizeof *s->kept);
    s->from  = stance_calloc(s->n + 1, sizeof *s->from);
    s->ends  = stance_calloc(s->n + 1, sizeof *s->ends);
    s->room  = stance_calloc(s->n + 1, sizeof *s->room);
    s->dear  = stance_calloc(s->n + 1, sizeof *s->dear);
    s->within = stance_calloc(s->n + 1, sizeof *s->within);
    if (s->fixed == NULL || s->first == NULL || s->ended == NULL || s->kept == NULL || s->from == NULL
        || s->ends == NULL || s->room == NULL || s->dear == NULL || s->within == NULL)
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
 * @param all  goes on after the first way to the end: s->ends is then complete */
static bool fits(struct search *s, size_t peak, bool all)
{
    bool found = false;

    for (size_t j = 0; j <= s->n; j++) {
        s->kept[j] = j == 0 ? 0 : SIZE_MAX;
        s->ends[j] = false;
    }
    for (size_t i = 0; i < s->n && (all || !found); i++) {
        s->ends[i] = s->kept[i] != SIZE_MAX && extend(s, i, peak);
        found      = found || s->ends[i];
    }
    return found;
}

static int dearest_first(const void *a, const void *b)
{
    const struct dear *x = a, *y = b;

    if (x->rate != y->rate)
        return x->rate > y->rate ? -1 : 1;
    return x->node < y->node ? -1 : x->node > y->node;
}

/* Nodes whose results the backward pass reads and nobody else needs, the dearest for their size first. */
static void list_dear(struct search *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->nodes[i].inside > 0 && s->nodes[i].inside >= s->nodes[i].crossing && s->nodes[i].work > 0)
            s->dear[s->n_dear++] = (struct dear){ s->nodes[i].work / (double)s->nodes[i].inside, i };
    qsort(s->dear, s->n_dear, sizeof *s->dear, dearest_first);
}

/* What is kept when the last segment begins with node @p last. @return work that is done again */
static double keep(struct search *s, size_t last, size_t peak, bool *kept)
{
    double work = 0;
    size_t cuts = 0;

    for (size_t i = last; i < s->n; i++)
        kept[i] = true;
    /* room[k]: bytes that are free while the k-th segment from the end is the one that is worked on. */
    for (size_t from = last, to = s->n;; to = from, from = s->from[from]) {
        size_t inside = 0, beside = 0;

        for (size_t i = from; i < to; i++) {
            inside += s->nodes[i].inside;
            beside       = s->nodes[i].beside > beside ? s->nodes[i].beside : beside;
            kept[i]      = to == s->n || s->nodes[i].last >= to;
            s->within[i] = cuts;
        }
        s->room[cuts++] = peak - s->fixed[to] - s->kept[from] - inside - beside;
        if (from == 0)
            break;
    }
    for (size_t d = 0; d < s->n_dear; d++) {
        size_t i = s->dear[d].node, bytes = s->nodes[i].inside, k = 0;

        while (k < s->within[i] && s->room[k] >= bytes)
            k++;
        if (kept[i] || k < s->within[i])
            continue;
        kept[i] = true;
        for (k = 0; k < s->within[i]; k++)
            s->room[k] -= bytes;
    }
    for (size_t i = 0; i < s->n; i++)
        work += kept[i] ? 0 : s->nodes[i].work;
    return work;
}

/* The best beginning of the last segment: a long one leaves little to do again, a short one leaves room for
 * what is dear. */
static size_t choose_last(struct search *s, size_t peak, bool *kept)
{
    size_t best = 0, ends = 0, seen = 0;
    double least = INFINITY;

    for (size_t i = 0; i < s->n; i++)
        ends += s->ends[i];
    for (size_t i = 0; i < s->n; i++) {
        double work;

        if (!s->ends[i] || seen++ % (ends / TRIES + 1) != 0)
            continue;
        work = keep(s, i, peak, kept);
        if (work < least) {
            least = work;
            best  = i;
        }
    }
    return best;
}

stance_status stance_segments_choose(const struct stance_segment_node *nodes, size_t n, double more, bool *kept,
                                     size_t *peak, struct stance_error *err)
{
    struct search s   = { .nodes = nodes, .n = n };
    size_t        low = 0, high = 0, beside = 0;
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

        if (fits(&s, middle, false))
            high = middle;
        else
            low = middle + 1;
    }
    if (n > 0) {
        high += (size_t)((double)high * more);
        fits(&s, high, true);
        list_dear(&s);
        keep(&s, choose_last(&s, high, kept), high, kept);
    }
    if (peak != NULL)
        *peak = high;

done:
    stance_free(s.fixed);
    stance_free(s.first);
    stance_free(s.ended);
    stance_free(s.kept);
    stance_free(s.from);
    stance_free(s.ends);
    stance_free(s.room);
    stance_free(s.dear);
    stance_free(s.within);
    return status;
}
