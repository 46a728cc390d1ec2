/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "step/window.h"

int64_t stance_windows_samples(const struct stance_windows *w, int64_t micro)
{
    if (w->each != NULL)
        return w->each[micro];
    return micro % w->batches == w->batches - 1 ? w->samples - (w->batches - 1) * w->batch_size
                                                : w->batch_size;
}

/* Where the window that holds @p micro has to end, full or not. */
static int64_t limit(const struct stance_windows *w, int64_t micro)
{
    int64_t epoch_end = (micro / w->batches + 1) * w->batches;

    return w->flush && epoch_end < w->end ? epoch_end : w->end;
}

int64_t stance_windows_end(const struct stance_windows *w, int64_t micro, int64_t done)
{
    int64_t end = micro - done + w->accumulate, most = limit(w, micro);

    return end > most ? most : end;
}

double stance_windows_weight(const struct stance_windows *w, int64_t micro, int64_t done)
{
    int64_t total = 0;

    for (int64_t i = micro - done, end = stance_windows_end(w, micro, done); i < end; i++)
        total += stance_windows_samples(w, i);
    return (double)stance_windows_samples(w, micro) / (double)total;
}

bool stance_windows_dropped(const struct stance_windows *w, int64_t micro)
{
    return w->drop && limit(w, micro) - micro < w->accumulate;
}

/* Windows that n micro-batches in a row make. */
static int64_t windows_of(const struct stance_windows *w, int64_t n)
{
    return w->drop ? n / w->accumulate : (n + w->accumulate - 1) / w->accumulate;
}

int64_t stance_windows_count(const struct stance_windows *w)
{
    if (!w->flush)
        return windows_of(w, w->end);
    return w->end / w->batches * windows_of(w, w->batches) + windows_of(w, w->end % w->batches);
}
