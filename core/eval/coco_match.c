/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "eval/coco_match.h"
#include "eval/oks.h"

#include <math.h>

/* px^2, both ends within. */
static const double area_range[STANCE_COCO_AREAS][2] = {
    { 0, 1e10 }, { 32. * 32, 96. * 96 }, { 96. * 96, 1e10 },
};

static bool out_of_range(double area, int range)
{
    return area < area_range[range][0] || area > area_range[range][1];
}

double stance_coco_threshold(int t)
{
    return t == STANCE_COCO_THRESHOLDS - 1 ? 0.95 : t * ((0.95 - 0.5) / 9) + 0.5;
}

bool stance_coco_match_init(struct stance_coco_match *m, struct stance_arena *arena, int32_t k,
                            const double *vars, int64_t truths)
{
    size_t n = (size_t)truths + 1;

    *m           = (struct stance_coco_match){ .k = k, .vars = vars };
    m->truth     = stance_arena_get(arena, n * sizeof *m->truth, 64);
    m->detection = stance_arena_get(arena, STANCE_COCO_DETECTIONS * sizeof *m->detection, 64);
    m->term      = stance_arena_get(arena, (size_t)k * sizeof *m->term, 64);
    m->oks       = stance_arena_get(arena, n * STANCE_COCO_DETECTIONS * sizeof *m->oks, 64);
    m->order     = stance_arena_get(arena, n * sizeof *m->order, 64);
    m->taken     = stance_arena_get(arena, n * sizeof *m->taken, 64);
    m->unwanted  = stance_arena_get(arena, n * sizeof *m->unwanted, 64);
    return m->truth != NULL && m->detection != NULL && m->term != NULL && m->oks != NULL
           && m->order != NULL && m->taken != NULL && m->unwanted != NULL;
}

static void compare_all(struct stance_coco_match *m)
{
    for (int32_t d = 0; d < m->detections; d++) {
        double *row = m->oks + (size_t)d * (size_t)m->truths;

        m->best[d] = 0;
        for (int64_t g = 0; g < m->truths; g++) {
            double oks = stance_oks_truth(m->truth[g], m->detection[d], m->vars, m->k, m->term);

            row[g] = oks >= 0 ? oks : 0; /* NaN: a point of the detection is none */
            if (row[g] > m->best[d])
                m->best[d] = row[g];
        }
    }
}

/* Nothing to find where nothing is labelled, and in a crowd. */
static bool is_unwanted(const struct stance_coco_match *m, const struct stance_truth *t, int range)
{
    if (t->crowd || out_of_range(t->area, range))
        return true;
    for (int32_t i = 0; i < m->k; i++)
        if (t->keypoint[3 * i + 2] > 0)
            return false;
    return true;
}

static void order_truths(struct stance_coco_match *m, int range)
{
    int64_t wanted = 0, at = 0;

    for (int64_t g = 0; g < m->truths; g++) {
        m->unwanted[g] = is_unwanted(m, m->truth[g], range);
        wanted += !m->unwanted[g];
    }
    for (int64_t g = 0; g < m->truths; g++)
        if (!m->unwanted[g])
            m->order[at++] = g;
    for (int64_t g = 0; g < m->truths; g++)
        if (m->unwanted[g])
            m->order[at++] = g;
    for (int64_t g = 0; g < m->truths; g++) {
        m->unwanted[g] = g >= wanted;
        m->taken[g]    = 0;
    }
    m->persons[range] = wanted;
}

/* The person, in order, that a detection finds at threshold t; -1: none. Of equally similar ones the
 * later; an unwanted one only where no wanted one will do. */
static int64_t find(const struct stance_coco_match *m, const double *row, int t)
{
    double  oks  = fmin(stance_coco_threshold(t), 1 - 1e-10);
    int64_t best = -1;

    for (int64_t i = 0; i < m->truths; i++) {
        int64_t g = m->order[i];

        if ((m->taken[i] >> t & 1) != 0 && !m->truth[g]->crowd)
            continue;
        if (best >= 0 && !m->unwanted[best] && m->unwanted[i])
            break;
        if (row[g] < oks)
            continue;
        oks  = row[g];
        best = i;
    }
    return best;
}

/* Area of the box around all points of a detection. A detection without an area (NaN) is in every
 * range, as it is to NumPy's comparisons. */
static double extent(const double *p, int32_t k)
{
    double x0 = p[0], x1 = p[0], y0 = p[1], y1 = p[1];

    for (int32_t i = 1; i < k; i++) {
        x0 = p[3 * i] < x0 ? p[3 * i] : x0;
        x1 = p[3 * i] > x1 ? p[3 * i] : x1;
        y0 = p[3 * i + 1] < y0 ? p[3 * i + 1] : y0;
        y1 = p[3 * i + 1] > y1 ? p[3 * i + 1] : y1;
    }
    return (x1 - x0) * (y1 - y0);
}

static void match_range(struct stance_coco_match *m, int range)
{
    order_truths(m, range);
    for (int32_t d = 0; d < m->detections; d++) {
        const double *row     = m->oks + (size_t)d * (size_t)m->truths;
        uint16_t      hit = 0, ignored = 0;

        for (int t = 0; t < STANCE_COCO_THRESHOLDS; t++) {
            uint16_t bit = (uint16_t)(1u << t);
            int64_t  i   = m->best[d] < fmin(stance_coco_threshold(t), 1 - 1e-10) ? -1 : find(m, row, t);

            if (i < 0)
                continue;
            m->taken[i] |= bit;
            if (m->truth[m->order[i]]->annotation_id != 0) /* see stance_coco_evaluate() */
                hit |= bit;
            if (m->unwanted[i])
                ignored |= bit;
        }
        if (out_of_range(extent(m->detection[d], m->k), range))
            ignored |= (uint16_t)~hit;
        m->hit[range][d]     = hit;
        m->ignored[range][d] = ignored;
    }
}

void stance_coco_match_image(struct stance_coco_match *m)
{
    compare_all(m);
    for (int range = 0; range < STANCE_COCO_AREAS; range++)
        match_range(m, range);
}
