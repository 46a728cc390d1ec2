/* SPDX-License-Identifier: Apache-2.0 */
#include "runner.h"

#include "models_stub.h"

#include <jansson.h>
#include <math.h>

extern const struct stance_plugin backbone_hrnet_LTX_stance_plugin, backbone_resnet_LTX_stance_plugin,
    head_heatmap_LTX_stance_plugin, loss_joints_mse_LTX_stance_plugin;

/* A network as a recipe names it: "key=value" texts for backbone and head. */
struct net {
    const char                 *name;
    const struct stance_plugin *backbone;
    const char                 *set[4], *deconv;
    int                         size[2], stride; /* of the input, px: width, height; px a heatmap px */
};

static void *configure(const struct stance_plugin *p, const char *const *set, int n)
{
    struct stance_error err    = STANCE_ERROR_INIT;
    void               *config = calloc(1, p->config_size);

    ck_assert_msg(stance_param_defaults(p->params, config, &err) == STANCE_OK, "%s: %s", p->name, err.text);
    for (int i = 0; i < n && set[i] != NULL; i++) {
        char        key[64];
        const char *eq = strchr(set[i], '=');

        snprintf(key, sizeof key, "%.*s", (int)(eq - set[i]), set[i]);
        ck_assert_msg(stance_param_set(p->params, config, key, eq + 1, &err) == STANCE_OK, "%s", err.text);
    }
    return config;
}

/* Builds backbone, head and loss; the caller's to look at. */
static struct stance_builder *make(const struct net *net, int keypoints)
{
    const struct stance_plugin *hp = &head_heatmap_LTX_stance_plugin, *lp = &loss_joints_mse_LTX_stance_plugin;
    char                        deconv[64];
    const char                 *head_set[1] = { deconv };
    void *bc = configure(net->backbone, net->set, 4), *lc = configure(lp, NULL, 0), *hc;
    struct stance_pose     pose = { .size = sizeof pose, .keypoints = keypoints,
                                    .input_size = { net->size[0], net->size[1] },
                                    .heatmap_size = { net->size[0] / net->stride, net->size[1] / net->stride } };
    struct stance_builder *b = stub_new();
    struct stance_value    image, feature[STANCE_FEATURES_MAX] = { { 0 } }, out[8] = { { 0 } }, loss;
    int                    n = 0, n_out = 0;

    snprintf(deconv, sizeof deconv, "deconv=%s", net->deconv);
    hc    = configure(hp, head_set, 1);
    image = stance_input(b, "image", STANCE_TYPE_ANY, stance_shape4(2, 3, net->size[1], net->size[0]));
    stance_enter(b, "backbone");
    net->backbone->ops.backbone->build(b, bc, image, feature, &n);
    stance_leave(b);
    if (!stance_failed(b)) {
        ck_assert_int_eq(n, 1);
        stance_enter(b, "keypoint_head");
        hp->ops.head->build(b, hc, &pose, feature, n, out, &n_out);
        stance_leave(b);
    }
    if (!stance_failed(b)) {
        ck_assert_int_eq(n_out, 1);
        loss = lp->ops.loss->build(b, lc, &pose, out, n_out);
        ck_assert_int_eq(stance_shape_of(b, loss).rank, 0);
    }
    free(bc);
    free(hc);
    free(lc);
    return b;
}

#define HRNET  &backbone_hrnet_LTX_stance_plugin
#define RESNET &backbone_resnet_LTX_stance_plugin

static const struct net small[] = {
    { "hrnet_w4", HRNET, { "width=4", "stage1_planes=8" }, "[]", { 64, 96 }, 4 },
    { "resnet18_c8", RESNET, { "depth=18", "stem_channels=8", "base_channels=8" }, "[32,32,32]", { 64, 96 }, 4 },
    { "resnet50_c8", RESNET, { "depth=50", "stem_channels=8", "base_channels=8" }, "[32,32,32]", { 64, 96 }, 4 },
};

static json_t *header(const char *path)
{
    FILE    *f = fopen(path, "rb");
    uint64_t n = 0;
    char    *text;
    json_t  *json;

    ck_assert(f != NULL && fread(&n, sizeof n, 1, f) == 1 && n < 1 << 22);
    text = calloc(1, n + 1);
    ck_assert(fread(text, 1, n, f) == n);
    json = json_loadb(text, n, 0, NULL);
    ck_assert(json != NULL);
    free(text);
    fclose(f);
    return json;
}

START_TEST(names_and_shapes_are_the_published_ones)
{
    char                   name[100];
    const char            *path;
    json_t                *golden;
    struct stance_builder *b;

    snprintf(name, sizeof name, "golden/nets/%s.init.safetensors", small[_i].name);
    path = shared_file(name);
    if (path == NULL) {
        SKIP("%s is absent", name);
        return;
    }
    golden = header(path);
    json_object_del(golden, "__metadata__");
    b = make(&small[_i], 17);
    ck_assert_msg(!stance_failed(b), "%s", b->err.text);
    for (int i = 0; i < b->n_weights; i++) {
        const struct stub_weight *w     = &b->weight[i];
        json_t                   *entry = json_object_get(golden, w->name), *shape;

        ck_assert_msg(entry != NULL, "%s: %s is ours alone", small[_i].name, w->name);
        shape = json_object_get(entry, "shape");
        ck_assert_int_eq((int)json_array_size(shape), w->shape.rank);
        for (int d = 0; d < w->shape.rank; d++)
            ck_assert_int_eq(json_integer_value(json_array_get(shape, (size_t)d)), w->shape.dim[d]);
        json_object_del(golden, w->name); /* so that a name used twice is noticed */
    }
    for (void *at = json_object_iter(golden); at != NULL; at = json_object_iter_next(golden, at))
        ck_abort_msg("%s: %s is missing", small[_i].name, json_object_iter_key(at));
    json_decref(golden);
    stub_free(b);
}
END_TEST

/* Counts that the field reports: trained scalars of backbone and head, entries of a state dict. */
static const struct {
    struct net net;
    int64_t    backbone, head;
    int        entries;
} real[] = {
    { { "hrnet_w18", HRNET, { "width=18" }, "[]", { 192, 256 }, 4 }, 9317892, 323, 1752 + 2 },
    { { "hrnet_w32", HRNET, { NULL }, "[]", { 192, 256 }, 4 }, 28535552, 561, 1752 + 2 },
    { { "hrnet_w48", HRNET, { "width=48" }, "[]", { 288, 384 }, 4 }, 63594912, 833, 1752 + 2 },
    { { "resnet18", RESNET, { "depth=18" }, "[256,256,256]", { 192, 256 }, 4 }, 11176512, 4200209, 140 },
    { { "resnet34", RESNET, { "depth=34" }, "[256,256,256]", { 192, 256 }, 4 }, 21284672, 4200209, 236 },
    { { "resnet50", RESNET, { NULL }, "[256,256,256]", { 192, 256 }, 4 }, 23508032, 10491665, 338 },
    { { "resnet101", RESNET, { "depth=101" }, "[256,256,256]", { 288, 384 }, 4 }, 42500160, 10491665, 644 },
    { { "resnet152", RESNET, { "depth=152" }, "[256,256,256]", { 192, 256 }, 4 }, 58143808, 10491665, 950 },
    /* The stride of a caffe-style block moves, nothing else does. */
    { { "resnet50 caffe", RESNET, { "style=caffe" }, "[256,256,256]", { 192, 256 }, 4 }, 23508032, 10491665, 338 },
};

static int64_t trained(const struct stance_builder *b, const char *prefix)
{
    int64_t sum = 0;

    for (int i = 0; i < b->n_weights; i++)
        if (b->weight[i].role == STANCE_ROLE_PARAM && strncmp(b->weight[i].name, prefix, strlen(prefix)) == 0)
            sum += stance_elements(&b->weight[i].shape);
    return sum;
}

START_TEST(parameter_counts)
{
    struct stance_builder *b = make(&real[_i].net, 17);
    struct stance_shape    s;

    ck_assert_msg(!stance_failed(b), "%s: %s", real[_i].net.name, b->err.text);
    ck_assert_int_eq(trained(b, "backbone."), real[_i].backbone);
    ck_assert_int_eq(trained(b, "keypoint_head."), real[_i].head);
    ck_assert_int_eq(b->n_weights, real[_i].entries);
    ck_assert_str_eq(b->output[0].name, "heatmap");
    s = stance_shape_of(b, b->output[0].v);
    ck_assert(s.dim[1] == 17 && s.dim[2] == real[_i].net.size[1] / 4 && s.dim[3] == real[_i].net.size[0] / 4);
    ck_assert_str_eq(b->output[1].name, "loss");
    stub_free(b);
}
END_TEST

static const struct stub_weight *find(const struct stance_builder *b, const char *name)
{
    for (int i = 0; i < b->n_weights; i++)
        if (strcmp(b->weight[i].name, name) == 0)
            return &b->weight[i];
    ck_abort_msg("no weight %s", name);
    return NULL;
}

/* Initial values: spec of MMPose 0.29 (normal 0.001; Kaiming fan-out; the last norm at zero). */
static const struct {
    int                   net; /* into real */
    const char           *name;
    enum stance_init_kind kind;
    double                a, b;
} starts[] = {
    { 1, "backbone.conv1.weight", STANCE_INIT_NORMAL, 0, 0.001 },
    { 1, "backbone.stage4.2.fuse_layers.0.3.0.weight", STANCE_INIT_NORMAL, 0, 0.001 },
    { 1, "backbone.layer1.0.bn3.weight", STANCE_INIT_CONSTANT, 1, 0 },
    { 1, "keypoint_head.final_layer.bias", STANCE_INIT_CONSTANT, 0, 0 },
    { 5, "backbone.conv1.weight", STANCE_INIT_NORMAL, 0, 0.025253813613805268 }, /* sqrt(2 / (49 * 64)) */
    { 5, "backbone.layer4.2.conv3.weight", STANCE_INIT_NORMAL, 0, 0.03125 },     /* sqrt(2 / 2048) */
    { 5, "backbone.layer1.0.bn3.weight", STANCE_INIT_CONSTANT, 0, 0 },
    { 5, "backbone.layer1.0.bn2.weight", STANCE_INIT_CONSTANT, 1, 0 },
    { 3, "backbone.layer2.1.bn2.weight", STANCE_INIT_CONSTANT, 0, 0 },
    { 5, "keypoint_head.deconv_layers.6.weight", STANCE_INIT_NORMAL, 0, 0.001 },
};

START_TEST(initial_values)
{
    struct stance_builder    *b = make(&real[starts[_i].net].net, 17);
    const struct stub_weight *w = find(b, starts[_i].name);

    ck_assert(w->init.kind == starts[_i].kind && w->init.a == (float)starts[_i].a);
    ck_assert(starts[_i].kind == STANCE_INIT_CONSTANT || fabs(w->init.b - starts[_i].b) < 1e-7 * starts[_i].b);
    stub_free(b);
}
END_TEST

START_TEST(equal_channels_pass_through)
{
    /* 4 * 8 planes = width 32: the first slot of transition 1 has no weights, the second has. */
    struct net             net = { "pass", HRNET, { "width=32", "stage1_planes=8" }, "[]", { 64, 64 }, 4 };
    struct stance_builder *b   = make(&net, 5);

    ck_assert_msg(!stance_failed(b), "%s", b->err.text);
    for (int i = 0; i < b->n_weights; i++)
        ck_assert(strncmp(b->weight[i].name, "backbone.transition1.0.", 23) != 0);
    find(b, "backbone.transition1.1.0.0.weight");
    stub_free(b);
}
END_TEST

static const struct {
    struct net    net;
    stance_status want;
    const char   *says;
} refused[] = {
    { { "h", HRNET, { NULL }, "[]", { 192, 240 }, 4 }, STANCE_ERR_SHAPE, "multiples of 32" },
    { { "h", HRNET, { "modules=[1,4]" }, "[]", { 192, 256 }, 4 }, STANCE_ERR_INVAL, "modules: 2 numbers instead of 3" },
    { { "h", HRNET, { NULL }, "[]", { 192, 256 }, 8 }, STANCE_ERR_SHAPE, "heatmaps of 48x64 px, heatmap_size is 24x32" },
    { { "r", RESNET, { NULL }, "[256,256]", { 192, 256 }, 4 }, STANCE_ERR_SHAPE, "heatmaps of 24x32 px" },
};

START_TEST(refuses_what_cannot_work)
{
    struct stance_builder *b = make(&refused[_i].net, 17);

    ck_assert_int_eq(b->err.status, refused[_i].want);
    ck_assert_msg(strstr(b->err.text, refused[_i].says) != NULL, "says: %s", b->err.text);
    stub_free(b);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("models");
    TCase *t = tcase_create("models");

    tcase_add_loop_test(t, names_and_shapes_are_the_published_ones, 0, 3);
    tcase_add_loop_test(t, parameter_counts, 0, sizeof real / sizeof real[0]);
    tcase_add_loop_test(t, initial_values, 0, sizeof starts / sizeof starts[0]);
    tcase_add_test(t, equal_channels_pass_through);
    tcase_add_loop_test(t, refuses_what_cannot_work, 0, sizeof refused / sizeof refused[0]);
    suite_add_tcase(s, t);
    return run_suite(s);
}
