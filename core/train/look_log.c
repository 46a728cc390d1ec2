/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "train/look_log.h"

#include "io/json.h"

#include <stance/log.h>

#include <errno.h>
#include <string.h>

#define STANCE_LOG_MODULE "train"

void stance_look_log_open(struct stance_look_log *l, const char *folder)
{
    *l = (struct stance_look_log){ .file = NULL };
    snprintf(l->path, sizeof l->path, "%.4200s/histogram.jsonl", folder);
}

static void fail(struct stance_look_log *l, int error)
{
    l->failed = true;
    STANCE_LOG(STANCE_LOG_WARN, "%s: %s; it ends here", l->path, error != 0 ? strerror(error) : "it could not be written");
}

static void put(struct stance_json_out *o, const char *key, const struct stance_exponents *e)
{
    const struct { const char *key; uint64_t n; } parts[] = {
        { "zero", e->zero }, { "below", e->below }, { "above", e->above }, { "inf", e->inf }, { "nan", e->nan },
    };

    stance_json_out_key(o, key);
    stance_json_out_object(o);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        stance_json_out_key(o, parts[i].key);
        stance_json_out_i64(o, (int64_t)parts[i].n);
    }
    stance_json_out_key(o, "counts");
    stance_json_out_array(o);
    for (int i = 0; i < STANCE_EXPONENTS; i++)
        stance_json_out_i64(o, (int64_t)e->count[i]);
    stance_json_out_end_array(o);
    stance_json_out_end_object(o);
}

void stance_look_log_exponents(struct stance_look_log *l, const struct stance_gradient_exponents *e, int64_t step)
{
    struct stance_json_out o;

    if (l->failed)
        return;
    errno = 0;
    if (l->file == NULL)
        l->file = fopen(l->path, "ae");
    if (l->file == NULL) {
        fail(l, errno);
        return;
    }
    stance_json_out_start(&o, l->file, 0);
    stance_json_out_object(&o);
    stance_json_out_key(&o, "step");
    stance_json_out_i64(&o, step);
    stance_json_out_key(&o, "scale");
    stance_json_out_f32(&o, e->scale);
    stance_json_out_key(&o, "first");
    stance_json_out_i64(&o, STANCE_EXPONENT_FIRST);
    put(&o, "activations", &e->activation);
    put(&o, "weights", &e->weight);
    stance_json_out_end_object(&o);
    if (stance_json_out_finish(&o, NULL) != STANCE_OK)
        fail(l, errno);
}

void stance_look_log_close(struct stance_look_log *l)
{
    if (l->file != NULL && fclose(l->file) != 0 && !l->failed)
        fail(l, errno);
    l->file = NULL;
}
