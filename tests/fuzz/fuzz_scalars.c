/* SPDX-License-Identifier: Apache-2.0
 *
 * scalars.jsonl and histogram.jsonl: the first byte says which. */
#include "config.h"

#include "replay.h"

#include "plot/curves.h"
#include "plot/figure.h"

#include <stance/alloc.h>

static const struct seed seeds[] = {
    SEED("s{\"lr\": 5.0e-05, \"loss\": 0.0066, \"grad_norm\": null, \"loss_scale\": 65536, \"skipped\": 0, \"epoch\": 1, "
         "\"iter\": 3, \"step\": 3}\n{\"AP\": -1, \"AP50\": 1, \"time\": 2.4, \"step\": 60}\n{\"loss\": 0."),
    SEED("s{\"loss\": 1e308, \"step\": 9007199254740993}\n{\"loss\": -1e308, \"step\": 0}\n"),
    SEED("h{\"step\": 3, \"scale\": 512, \"first\": -40, \"activations\": {\"zero\": 1, \"below\": 2, \"above\": 0, \"inf\": 0, "
         "\"nan\": 0, \"counts\": [0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1,2,3,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,"
         "0,0,0,0,0,0,0,0,0,9]}, \"weights\": {\"zero\": 0}}\n"),
};

static void draw(const struct stance_canvas *c, void *ctx)
{
    const struct stance_figure *f = ctx;

    for (int i = 0; i < f->n_panels; i++)
        stance_panel_draw(&f->panel[i], c, 0, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct stance_curves  c   = { .label = NULL };
    struct stance_error   err = STANCE_ERROR_INIT;
    struct stance_string  out = { 0 };
    struct stance_figure *f   = stance_calloc(1, sizeof *f);
    stance_status         status;

    if (size == 0 || f == NULL) {
        stance_free(f);
        return 0;
    }
    status = data[0] == 'h' ? stance_curves_add_histograms(&c, (const char *)data + 1, size - 1, "fuzz", &err)
                            : stance_curves_add_scalars(&c, (const char *)data + 1, size - 1, "fuzz", &err);
    if (status == STANCE_OK) {
        stance_figure_make(f, &c, 1);
        stance_canvas_svg(&out, STANCE_PANEL_WIDTH, STANCE_PANEL_HEIGHT, "fuzz", true, draw, f);
    }
    stance_string_free(&out);
    stance_curves_clear(&c);
    stance_free(f);
    return 0;
}

REPLAY_MAIN(seeds)
