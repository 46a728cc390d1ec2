/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole networks by the references against golden/nets: what the field's own code computes in binary64, kept
 * in binary32. So tensors must agree to the rounding of what is kept, 2^-24 of the largest element or 6e-8,
 * and losses, which are kept in full, to 1e-9. */
#include "graph_run.h"
#include "runner.h"

#include <stance/plugin.h>

#include <jansson.h>

extern const struct stance_plugin backbone_hrnet_LTX_stance_plugin, backbone_resnet_LTX_stance_plugin,
    head_heatmap_LTX_stance_plugin, loss_joints_mse_LTX_stance_plugin;

enum { BATCH = 4, KEYPOINTS = 17, WIDTH = 64, HEIGHT = 96 };

static const struct net {
    const char                 *name;
    const struct stance_plugin *backbone;
    const char                 *set[3][2], *deconv;
} nets[] = {
    { "hrnet_w4", &backbone_hrnet_LTX_stance_plugin, { { "width", "4" }, { "stage1_planes", "8" } }, "[]" },
    { "resnet18_c8", &backbone_resnet_LTX_stance_plugin,
      { { "depth", "18" }, { "stem_channels", "8" }, { "base_channels", "8" } }, "[32,32,32]" },
    { "resnet50_c8", &backbone_resnet_LTX_stance_plugin,
      { { "depth", "50" }, { "stem_channels", "8" }, { "base_channels", "8" } }, "[32,32,32]" },
};

/* A safetensors file in memory. */
struct file { char *bytes; const char *data; json_t *entries; };

static bool file_open(struct file *f, const char *net, const char *what)
{
    char        name[100];
    const char *path;
    FILE       *in;
    long        size;
    uint64_t    header;

    snprintf(name, sizeof name, "golden/nets/%s.%s.safetensors", net, what);
    path = shared_file(name);
    if (path == NULL) {
        SKIP("%s is absent", name);
        return false;
    }
    in = fopen(path, "rb");
    ck_assert(in != NULL && fseek(in, 0, SEEK_END) == 0 && (size = ftell(in)) > 8);
    rewind(in);
    f->bytes = stance_calloc(1, (size_t)size);
    ck_assert_uint_eq(fread(f->bytes, 1, (size_t)size, in), (size_t)size);
    fclose(in);
    memcpy(&header, f->bytes, sizeof header);
    ck_assert_uint_lt(header, (uint64_t)size);
    f->entries = json_loadb(f->bytes + 8, header, 0, NULL);
    f->data    = f->bytes + 8 + header;
    ck_assert_ptr_nonnull(f->entries);
    return true;
}

static void file_close(struct file *f)
{
    json_decref(f->entries);
    stance_free(f->bytes);
}

/* A tensor of the file, over its bytes. */
static struct stance_tensor entry(const struct file *f, const char *name)
{
    json_t              *e = json_object_get(f->entries, name), *shape = json_object_get(e, "shape");
    bool                 integer = strcmp(json_string_value(json_object_get(e, "dtype")), "I64") == 0;
    struct stance_tensor t = { .type = integer ? STANCE_TYPE_I64 : STANCE_TYPE_F32 };

    ck_assert_msg(e != NULL, "no %s", name);
    t.stored     = t.type;
    t.shape.rank = (int32_t)json_array_size(shape);
    for (int i = 0; i < t.shape.rank; i++)
        t.shape.dim[i] = json_integer_value(json_array_get(shape, (size_t)i));
    /* Offsets are multiples of the element's size in these files. */
    t.data = (void *)(uintptr_t)(f->data + json_integer_value(json_array_get(json_object_get(e, "data_offsets"), 0)));
    return t;
}

/* Bytes of a file need not be aligned as an array of their type would be. */
static double element(const struct stance_tensor *t, int64_t i)
{
    float   f;
    int64_t n;

    if (t->type == STANCE_TYPE_F32) {
        memcpy(&f, (const char *)t->data + i * 4, sizeof f);
        return f;
    }
    memcpy(&n, (const char *)t->data + i * 8, sizeof n);
    return (double)n;
}

static void load(struct stance_tensor *to, const struct file *f, const char *name)
{
    struct stance_tensor from = entry(f, name);

    ck_assert_msg(stance_shape_equal(&from.shape, &to->shape), "%s: %s, not %s", name, OP_TEXT(&to->shape),
                  OP_TEXT(&from.shape));
    for (int64_t i = 0; i < stance_elements(&to->shape); i++)
        stance_tensor_put(to, i, element(&from, i));
}

/* Largest difference over the largest magnitude. */
static void compare(const struct stance_tensor *have, const struct file *f, const char *name, double tolerance)
{
    struct stance_tensor want = entry(f, name);
    double               worst = 0, size = 0;

    ck_assert(stance_shape_equal(&have->shape, &want.shape));
    for (int64_t i = 0; i < stance_elements(&have->shape); i++) {
        worst = fmax(worst, fabs(stance_tensor_get(have, i) - element(&want, i)));
        size  = fmax(size, fabs(element(&want, i)));
    }
    ck_assert_msg(worst <= tolerance * size, "%s is off by %g of its largest element, %g", name, worst / size, size);
}

static void *configure(const struct stance_plugin *p, const char *const (*set)[2], int n)
{
    struct stance_error err    = STANCE_ERROR_INIT;
    void               *config = stance_calloc(1, p->config_size + 1);

    ck_assert_msg(stance_param_defaults(p->params, config, &err) == STANCE_OK, "%s", err.text);
    for (int i = 0; i < n && set[i][0] != NULL; i++)
        ck_assert_msg(stance_param_set(p->params, config, set[i][0], set[i][1], &err) == STANCE_OK, "%s", err.text);
    return config;
}

/* Backbone, head and, when training, loss with its backward pass. */
static struct stance_graph *build(const struct net *net, bool training, struct stance_value *heatmap,
                                  struct stance_value *loss)
{
    const struct stance_plugin *hp = &head_heatmap_LTX_stance_plugin, *lp = &loss_joints_mse_LTX_stance_plugin;
    const char *const       head_set[1][2] = { { "deconv", net->deconv } };
    const struct stance_pose pose = { .size = sizeof pose, .keypoints = KEYPOINTS, .input_size = { WIDTH, HEIGHT },
                                      .heatmap_size = { WIDTH / 4, HEIGHT / 4 } };
    struct stance_error     err = STANCE_ERROR_INIT;
    struct stance_graph    *g;
    struct stance_builder  *b;
    struct stance_value     feature[STANCE_FEATURES_MAX], out[8];
    void *bc = configure(net->backbone, net->set, 3), *hc = configure(hp, head_set, 1), *lc = configure(lp, NULL, 0);
    int                     n = 0, n_out = 0;

    ck_assert_int_eq(stance_graph_new(NULL, training, &g, &err), STANCE_OK);
    b = stance_graph_builder(g);
    stance_enter(b, "backbone");
    net->backbone->ops.backbone->build(b, bc, stance_input(b, "image", STANCE_TYPE_ANY, stance_shape4(BATCH, 3, HEIGHT, WIDTH)),
                                       feature, &n);
    stance_leave(b);
    stance_enter(b, "keypoint_head");
    hp->ops.head->build(b, hc, &pose, feature, n, out, &n_out);
    stance_leave(b);
    ck_assert_msg(stance_graph_status(g, &err) == STANCE_OK, "%s", err.text);
    *heatmap = out[0];
    if (training) {
        *loss = lp->ops.loss->build(b, lc, &pose, out, n_out);
        ck_assert_msg(stance_graph_backward(g, *loss, &err) == STANCE_OK, "%s", err.text);
    }
    stance_free(bc);
    stance_free(hc);
    stance_free(lc);
    return g;
}

static void load_all(struct run *r, const struct file *init, const struct file *io)
{
    for (size_t w = 0; w < r->g->n_weights; w++)
        load(&r->t[r->g->weights[w].value], init, r->g->weights[w].name);
    for (size_t i = 0; i < r->g->n_inputs; i++)
        load(&r->t[r->g->inputs[i].value], io, r->g->inputs[i].name);
}

/* Adam as PyTorch's, step number n from 1: lr 5e-4, betas 0.9 and 0.999, eps 1e-8. */
static void adam(struct run *r, double **moments, int n)
{
    for (size_t w = 0; w < r->g->n_weights; w++) {
        const struct stance_tensor *x = &r->t[r->g->weights[w].value];
        const double               *d = r->g->weights[w].grad != 0 ? r->t[r->g->weights[w].grad].data : NULL;

        if (r->g->weights[w].assigned != 0)
            memcpy(x->data, r->t[r->g->weights[w].assigned].data, x->bytes);
        if (moments[w] == NULL)
            moments[w] = stance_calloc((size_t)stance_elements(&x->shape) + 1, 2 * sizeof **moments);
        for (int64_t i = 0; d != NULL && i < stance_elements(&x->shape); i++) {
            double *m = &moments[w][2 * i];

            m[0] += 0.1 * (d[i] - m[0]);
            m[1] = 0.999 * m[1] + 0.001 * d[i] * d[i];
            ((double *)x->data)[i] -= 5e-4 / (1 - pow(0.9, n)) * m[0] / (sqrt(m[1] / (1 - pow(0.999, n))) + 1e-8);
        }
    }
}

START_TEST(five_steps)
{
    const struct net   *net  = &nets[_i];
    struct file         init, io, grad, after;
    struct stance_value heatmap, loss;
    struct run          r;
    double            **moments;
    json_t             *golden;

    if (!file_open(&init, net->name, "init"))
        return;
    ck_assert(file_open(&io, net->name, "io") && file_open(&grad, net->name, "grad1") && file_open(&after, net->name, "after5"));
    golden = json_load_file(shared_file("golden/nets/nets.json"), 0, NULL);
    ck_assert_ptr_nonnull(golden);
    run_new(&r, build(net, true, &heatmap, &loss));
    moments = stance_calloc(r.g->n_weights, sizeof *moments);
    load_all(&r, &init, &io);
    for (int step = 0; step < 5; step++) {
        double have = run_nodes(&r, true, loss.id);
        double want = json_number_value(json_array_get(json_object_get(json_object_get(golden, net->name), "losses"), (size_t)step));

        ck_assert_msg(fabs(have - want) <= 1e-9, "loss %d: %.17g, not %.17g", step, have, want);
        if (step == 0)
            compare(&r.t[heatmap.id], &io, "heatmap", 6e-8);
        for (size_t w = 0; step == 0 && w < r.g->n_weights; w++)
            if (r.g->weights[w].role == STANCE_ROLE_PARAM)
                compare(&r.t[r.g->weights[w].grad], &grad, r.g->weights[w].name, 1e-7);
        adam(&r, moments, step + 1);
    }
    for (size_t w = 0; w < r.g->n_weights; w++) {
        compare(&r.t[r.g->weights[w].value], &after, r.g->weights[w].name, 1e-7);
        stance_free(moments[w]);
    }
    stance_free(moments);
    run_free(&r);
    json_decref(golden);
    file_close(&init);
    file_close(&io);
    file_close(&grad);
    file_close(&after);
}
END_TEST

START_TEST(evaluation)
{
    struct file         init, io;
    struct stance_value heatmap;
    struct run          r;

    if (!file_open(&init, nets[_i].name, "init"))
        return;
    ck_assert(file_open(&io, nets[_i].name, "io"));
    run_new(&r, build(&nets[_i], false, &heatmap, NULL));
    load_all(&r, &init, &io);
    run_nodes(&r, false, 0);
    compare(&r.t[heatmap.id], &io, "eval_heatmap", 6e-8);
    run_free(&r);
    file_close(&init);
    file_close(&io);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("nets");
    TCase *tc    = tcase_create("golden");

    tcase_set_timeout(tc, 300); /* under sanitizers on a busy machine; 2 s else */
    tcase_add_loop_test(tc, five_steps, 0, sizeof nets / sizeof *nets);
    tcase_add_loop_test(tc, evaluation, 0, sizeof nets / sizeof *nets);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
