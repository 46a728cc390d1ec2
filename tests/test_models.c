/* SPDX-License-Identifier: Apache-2.0 */
#include "runner.h"

#include "graph/graph.h"
#include "registry/instance.h"

#include <jansson.h>
#include <math.h>

#define BATCH 2
#define K     17

/* A network as a recipe names it, in the form of the command line, and its input. */
struct net {
    const char *backbone, *head;
    int         size[2], stride; /* width and height of the input, px; input px a heatmap px */
};

static struct stance_registry *registry;

static void open_registry(void)
{
    struct stance_error err = STANCE_ERROR_INIT;

    ck_assert_msg(stance_registry_new(NULL, &registry, &err) == STANCE_OK, "%s", err.text);
}

static void close_registry(void)
{
    stance_registry_free(registry);
}

static struct stance_instance instance(enum stance_kind kind, const char *spec)
{
    struct stance_error    err = STANCE_ERROR_INIT;
    struct stance_instance i;

    ck_assert_msg(stance_instance_new(registry, kind, spec, &i, &err) == STANCE_OK, "%s", err.text);
    return i;
}

/* Builds backbone, head, loss and, training, the backward pass. The caller's. */
static struct stance_graph *make(const struct net *net, bool training, struct stance_error *err)
{
    struct stance_instance backbone = instance(STANCE_KIND_BACKBONE, net->backbone);
    struct stance_instance head     = instance(STANCE_KIND_HEAD, net->head);
    struct stance_instance loss     = instance(STANCE_KIND_LOSS, "joints_mse");
    struct stance_pose     pose     = { .size         = sizeof pose,
                                        .keypoints    = K,
                                        .input_size   = { net->size[0], net->size[1] },
                                        .heatmap_size = { net->size[0] / net->stride,
                                                          net->size[1] / net->stride } };
    struct stance_value    image, feature[STANCE_FEATURES_MAX] = { { 0 } }, out[8] = { { 0 } },
                               l = { 0 };
    struct stance_graph   *g;
    struct stance_builder *b;
    int                    n = 0, n_out = 0;

    ck_assert_int_eq(stance_graph_new(registry, training, &g, err), STANCE_OK);
    b     = stance_graph_builder(g);
    image = stance_input(b, "image", STANCE_TYPE_ANY,
                         stance_shape4(BATCH, 3, net->size[1], net->size[0]));
    stance_enter(b, "backbone");
    backbone.plugin->ops.backbone->build(b, backbone.config, image, feature, &n);
    stance_leave(b);
    ck_assert(stance_failed(b) || n == 1);
    stance_enter(b, "keypoint_head");
    if (!stance_failed(b))
        head.plugin->ops.head->build(b, head.config, &pose, feature, n, out, &n_out);
    stance_leave(b);
    ck_assert(stance_failed(b) || n_out == 1);
    if (!stance_failed(b))
        l = loss.plugin->ops.loss->build(b, loss.config, &pose, out, n_out);
    ck_assert(stance_failed(b) || stance_shape_of(b, l).rank == 0);
    stance_graph_status(g, err);
    if (training && !stance_failed(b))
        stance_graph_backward(g, l, err);
    stance_instance_clear(&backbone);
    stance_instance_clear(&head);
    stance_instance_clear(&loss);
    return g;
}

static const struct {
    const char *name;
    struct net  net;
} small[] = {
    { "hrnet_w4", { "hrnet:width=4,stage1_planes=8", "heatmap:deconv=[]", { 64, 96 }, 4 } },
    { "resnet18_c8",
      { "resnet:depth=18,stem_channels=8,base_channels=8",
        "heatmap:deconv=[32,32,32]",
        { 64, 96 },
        4 } },
    { "resnet50_c8",
      { "resnet:depth=50,stem_channels=8,base_channels=8",
        "heatmap:deconv=[32,32,32]",
        { 64, 96 },
        4 } },
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
    struct stance_error  err = STANCE_ERROR_INIT;
    char                 name[100];
    const char          *path;
    json_t              *golden;
    struct stance_graph *g;

    snprintf(name, sizeof name, "golden/nets/%s.init.safetensors", small[_i / 2].name);
    path = shared_file(name);
    if (path == NULL) {
        SKIP("%s is absent", name);
        return;
    }
    golden = header(path);
    json_object_del(golden, "__metadata__");
    g = make(&small[_i / 2].net, _i % 2 == 0, &err);
    ck_assert_msg(err.status == STANCE_OK, "%s", err.text);
    for (size_t i = 0; i < g->n_weights; i++) {
        const struct stance_graph_weight *w     = &g->weights[i];
        json_t                           *entry = json_object_get(golden, w->name), *shape;

        /* Evaluation has no use for the counters, whose absence in a file is never an error. */
        ck_assert_msg(entry != NULL, "%s: %s is ours alone", small[_i / 2].name, w->name);
        shape = json_object_get(entry, "shape");
        ck_assert_int_eq((int)json_array_size(shape), w->shape.rank);
        for (int d = 0; d < w->shape.rank; d++)
            ck_assert_int_eq(json_integer_value(json_array_get(shape, (size_t)d)), w->shape.dim[d]);
        ck_assert_str_eq(json_string_value(json_object_get(entry, "dtype")),
                         w->type == STANCE_TYPE_I64 ? "I64" : "F32");
        json_object_del(golden, w->name); /* so that a name used twice is noticed */
    }
    for (void *at = json_object_iter(golden); at != NULL; at = json_object_iter_next(golden, at))
        ck_abort_msg("%s: %s is missing", small[_i / 2].name, json_object_iter_key(at));
    json_decref(golden);
    stance_graph_free(g);
}
END_TEST

/* Counts that the field reports: trained scalars of backbone and head, entries of a state dict. */
static const struct {
    struct net net;
    int64_t    backbone, head;
    size_t     entries;
} real[] = {
    { { "hrnet:width=18", "heatmap", { 192, 256 }, 4 }, 9317892, 323, 1752 + 2 },
    { { "hrnet", "heatmap", { 192, 256 }, 4 }, 28535552, 561, 1752 + 2 },
    { { "hrnet:width=48", "heatmap", { 288, 384 }, 4 }, 63594912, 833, 1752 + 2 },
    { { "resnet:depth=18", "heatmap:deconv=[256,256,256]", { 192, 256 }, 4 },
      11176512,
      4200209,
      140 },
    { { "resnet:depth=34", "heatmap:deconv=[256,256,256]", { 192, 256 }, 4 },
      21284672,
      4200209,
      236 },
    { { "resnet", "heatmap:deconv=[256,256,256]", { 192, 256 }, 4 }, 23508032, 10491665, 338 },
    { { "resnet:depth=101", "heatmap:deconv=[256,256,256]", { 288, 384 }, 4 },
      42500160,
      10491665,
      644 },
    { { "resnet:depth=152", "heatmap:deconv=[256,256,256]", { 192, 256 }, 4 },
      58143808,
      10491665,
      950 },
    /* The stride of a caffe-style block moves, nothing else does. */
    { { "resnet:style=caffe", "heatmap:deconv=[256,256,256]", { 192, 256 }, 4 },
      23508032,
      10491665,
      338 },
};

static int64_t trained(const struct stance_graph *g, const char *prefix)
{
    int64_t sum = 0;

    for (size_t i = 0; i < g->n_weights; i++) {
        const struct stance_graph_weight *w = &g->weights[i];

        if (w->role != STANCE_ROLE_PARAM || strncmp(w->name, prefix, strlen(prefix)) != 0)
            continue;
        sum += stance_elements(&w->shape);
        ck_assert_msg(w->grad != 0, "%s has no gradient", w->name);
    }
    return sum;
}

START_TEST(parameter_counts)
{
    struct stance_error  err = STANCE_ERROR_INIT;
    const struct net    *net = &real[_i].net;
    struct stance_graph *g   = make(net, true, &err);
    struct stance_shape  s;

    ck_assert_msg(err.status == STANCE_OK, "%s: %s", net->backbone, err.text);
    ck_assert_int_eq(trained(g, "backbone."), real[_i].backbone);
    ck_assert_int_eq(trained(g, "keypoint_head."), real[_i].head);
    ck_assert_uint_eq(g->n_weights, real[_i].entries);
    s = g->values[stance_graph_output(g, "heatmap")].shape;
    ck_assert(s.rank == 4 && s.dim[0] == BATCH && s.dim[1] == K);
    ck_assert(s.dim[2] == net->size[1] / 4 && s.dim[3] == net->size[0] / 4);
    ck_assert(g->values[stance_graph_output(g, "loss")].shape.rank == 0);
    stance_graph_free(g);
}
END_TEST

static const struct stance_graph_weight *find(const struct stance_graph *g, const char *name)
{
    long i = stance_graph_weight_find(g, name);

    ck_assert_msg(i >= 0, "no weight %s", name);
    return &g->weights[i];
}

/* Initial values: MMPose 0.29's (normal 0.001; Kaiming fan-out; the last norm at zero). */
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
    { 5, "backbone.conv1.weight", STANCE_INIT_NORMAL, 0,
      0.025253813613805268 }, /* sqrt(2 / (49 * 64)) */
    { 5, "backbone.layer4.2.conv3.weight", STANCE_INIT_NORMAL, 0, 0.03125 }, /* sqrt(2 / 2048) */
    { 5, "backbone.layer1.0.bn3.weight", STANCE_INIT_CONSTANT, 0, 0 },
    { 5, "backbone.layer1.0.bn2.weight", STANCE_INIT_CONSTANT, 1, 0 },
    { 3, "backbone.layer2.1.bn2.weight", STANCE_INIT_CONSTANT, 0, 0 },
    { 5, "keypoint_head.deconv_layers.6.weight", STANCE_INIT_NORMAL, 0, 0.001 },
};

START_TEST(initial_values)
{
    struct stance_error              err = STANCE_ERROR_INIT;
    struct stance_graph             *g   = make(&real[starts[_i].net].net, false, &err);
    const struct stance_graph_weight *w;

    ck_assert_msg(err.status == STANCE_OK, "%s", err.text);
    w = find(g, starts[_i].name);
    ck_assert(w->init.kind == starts[_i].kind && w->init.a == (float)starts[_i].a);
    /* binary32 of a number written in decimal: half a unit in the last place, 2^-25 */
    ck_assert(starts[_i].kind == STANCE_INIT_CONSTANT
              || fabs(w->init.b - starts[_i].b) < 6e-8 * starts[_i].b);
    stance_graph_free(g);
}
END_TEST

START_TEST(equal_channels_pass_through)
{
    /* 4 * 8 planes = width 32: the first slot of transition 1 has no weights, the second has. */
    struct stance_error  err = STANCE_ERROR_INIT;
    struct net           net = { "hrnet:width=32,stage1_planes=8", "heatmap", { 64, 64 }, 4 };
    struct stance_graph *g   = make(&net, true, &err);

    ck_assert_msg(err.status == STANCE_OK, "%s", err.text);
    for (size_t i = 0; i < g->n_weights; i++)
        ck_assert(strncmp(g->weights[i].name, "backbone.transition1.0.", 23) != 0);
    find(g, "backbone.transition1.1.0.0.weight");
    stance_graph_free(g);
}
END_TEST

/* Kernels 4, 3 and 2 all double the size; final_kernel 3 keeps it. */
START_TEST(heads_of_other_kernels)
{
    static const int     kernels[] = { 2, 3, 4 };
    struct stance_error  err = STANCE_ERROR_INIT;
    char                 head[100];
    struct net           net = { "resnet:depth=18,base_channels=8", head, { 64, 96 }, 8 };
    struct stance_graph *g;

    snprintf(head, sizeof head, "heatmap:deconv=[16,8],deconv_kernels=[%d,%d],final_kernel=3",
             kernels[_i], kernels[_i]);
    g = make(&net, true, &err);
    ck_assert_msg(err.status == STANCE_OK, "%s", err.text);
    ck_assert_int_eq(find(g, "keypoint_head.deconv_layers.3.weight")->shape.dim[2], kernels[_i]);
    ck_assert_int_eq(find(g, "keypoint_head.final_layer.weight")->shape.dim[3], 3);
    stance_graph_free(g);
}
END_TEST

static const struct {
    struct net    net;
    stance_status want;
    const char   *says;
} refused[] = {
    { { "hrnet", "heatmap", { 192, 240 }, 4 }, STANCE_ERR_SHAPE, "multiples of 32" },
    { { "hrnet:modules=[1,4]", "heatmap", { 192, 256 }, 4 },
      STANCE_ERR_INVAL,
      "modules: 2 numbers instead of 3" },
    { { "hrnet", "heatmap", { 192, 256 }, 8 },
      STANCE_ERR_SHAPE,
      "heatmaps of 48x64 px, heatmap_size is 24x32" },
    { { "resnet", "heatmap:deconv=[256,256]", { 192, 256 }, 4 },
      STANCE_ERR_SHAPE,
      "heatmaps of 24x32 px" },
    { { "resnet", "heatmap:deconv=[8],deconv_kernels=[4,4]", { 192, 256 }, 16 },
      STANCE_ERR_INVAL,
      "2 numbers for 1" },
    { { "hrnet", "heatmap:final_kernel=0", { 192, 256 }, 4 },
      STANCE_ERR_SHAPE,
      "32 feature channels, but 17 keypoints" },
};

START_TEST(refuses_what_cannot_work)
{
    struct stance_error  err = STANCE_ERROR_INIT;
    struct stance_graph *g   = make(&refused[_i].net, true, &err);

    ck_assert_int_eq(err.status, refused[_i].want);
    ck_assert_msg(strstr(err.text, refused[_i].says) != NULL, "says: %s", err.text);
    stance_graph_free(g);
}
END_TEST

/* The head's unflip and decode are the core's, with the sizes of the pose. */
START_TEST(head_decodes)
{
    static const int32_t   partner[] = { 1, 0 };
    struct stance_pose     pose      = {
                 .size = sizeof pose, .keypoints = 2, .partner = partner, .heatmap_size = { 4, 3 }
    };
    struct stance_instance head      = instance(STANCE_KIND_HEAD, "heatmap");
    float heat[24] = { 0 }, centre[2] = { 10, 20 }, scale[2] = { 0.04F, 0.03F }, point[6];
    struct stance_decode   d   = { .size         = sizeof d,
                                   .heatmap      = heat,
                                   .batch        = 1,
                                   .keypoints    = 2,
                                   .height       = 3,
                                   .width        = 4,
                                   .centre       = centre,
                                   .scale        = scale,
                                   .post_process = STANCE_POST_NONE,
                                   .keypoint     = point };
    struct stance_error    err = STANCE_ERROR_INIT;

    heat[1 * 4 + 0] = 1; /* map 0: (0, 1) */
    head.plugin->ops.head->unflip(head.config, &pose, heat, 1, false);
    ck_assert(heat[4] == 0 && heat[12 + 1 * 4 + 3] == 1);
    ck_assert_int_eq(head.plugin->ops.head->decode(head.config, &d, &err), STANCE_OK);
    /* 8 x 6 px over 4 x 3: (3, 1) is 3 * 2 + 10 - 4, 1 * 2 + 20 - 3. */
    ck_assert(fabsf(point[3] - 12) < 1e-5F && fabsf(point[4] - 19) < 1e-5F && point[5] == 1);
    stance_instance_clear(&head);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("models");
    TCase *t = tcase_create("models");

    LTDL_SET_PRELOADED_SYMBOLS();
    tcase_add_unchecked_fixture(t, open_registry, close_registry);
    tcase_add_loop_test(t, names_and_shapes_are_the_published_ones, 0, 6);
    tcase_add_loop_test(t, parameter_counts, 0, sizeof real / sizeof real[0]);
    tcase_add_loop_test(t, initial_values, 0, sizeof starts / sizeof starts[0]);
    tcase_add_test(t, equal_channels_pass_through);
    tcase_add_loop_test(t, refuses_what_cannot_work, 0, sizeof refused / sizeof refused[0]);
    tcase_add_loop_test(t, heads_of_other_kernels, 0, 3);
    tcase_add_test(t, head_decodes);
    suite_add_tcase(s, t);
    return run_suite(s);
}
