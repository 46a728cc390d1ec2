/* SPDX-License-Identifier: Apache-2.0
 *
 * The logger plugins, and the progress line. */
#include "config.h"

#include "fault.h"
#include "runner.h"

#include "train/progress.h"

#include <stance/log.h>
#include <stance/logger.h>
#include <stance/registry.h>

#include <jansson.h>
#include <locale.h>
#include <math.h>

static struct stance_registry *reg;
static char                    folder[64];
static char                    warned[1024];

static void keep_warning(void *ctx, enum stance_log_level level, const char *module,
                         const char *text)
{
    (void)ctx;
    (void)level;
    (void)module;
    snprintf(warned + strlen(warned), sizeof warned - strlen(warned), "%s\n", text);
}

static void start(void)
{
    struct stance_error err = STANCE_ERROR_INIT;

    strcpy(folder, "/tmp/stance-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_msg(stance_registry_new(NULL, &reg, &err) == STANCE_OK, "%s", err.text);
}

static void stop(void)
{
    char command[128];

    stance_registry_free(reg);
    snprintf(command, sizeof command, "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
}

struct logger { const struct stance_logger_ops *ops; void *state; };

static struct logger logger_of(const char *name, const char *directory, stance_status want)
{
    struct stance_error         err = STANCE_ERROR_INIT;
    const struct stance_plugin *p;
    struct logger               l;

    ck_assert_msg(stance_registry_find(reg, STANCE_KIND_LOGGER, name, &p, &err) == STANCE_OK, "%s",
                  err.text);
    l.ops   = p->ops.logger;
    l.state = stance_calloc(1, l.ops->state_size);
    ck_assert_ptr_nonnull(l.state);
    ck_assert_msg(l.ops->open(l.state, NULL, directory, &err) == want, "%s", err.text);
    if (want != STANCE_OK)
        ck_assert_msg(strstr(err.text, directory) == err.text, "%s", err.text);
    return l;
}

static void end(struct logger *l)
{
    l->ops->close(l->state);
    stance_free(l->state);
}

static void read_file(const char *name, char *text, size_t size)
{
    char   path[256];
    FILE  *f;
    size_t got;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    f = fopen(path, "r");
    ck_assert_ptr_nonnull(f);
    got       = fread(text, 1, size - 1, f);
    text[got] = '\0';
    fclose(f);
}

static const struct stance_scalar train_scalars[] = {
    { "lr", 5e-4 },     { "data_time", 0.0104 }, { "loss", 0.00041 },     { "acc_pose", 0.8123 },
    { "time", 0.3124 }, { "memory", 5600 },      { "loss_scale", 65536 }, { "grad_norm", NAN },
    { "skipped", 0 },   { "throughput", 51.25 },
};
static const struct stance_event train_event = {
    .size       = sizeof(struct stance_event),
    .kind       = STANCE_EVENT_TRAIN,
    .epoch      = 9,
    .epochs     = 210,
    .iteration  = 50,
    .iterations = 270,
    .step       = 2210,
    .eta        = 3723.9,
    .scalars    = train_scalars,
    .n_scalars  = 10,
};
static const struct stance_scalar eval_scalars[] = {
    { "coco/AP", 0.75 },   { "coco/AP .5", 0.9 }, { "coco/AP (M)", -1 },
    { "data_time", 0.01 }, { "time", 0.1 },
};
static const struct stance_event eval_event = {
    .size       = sizeof(struct stance_event),
    .kind       = STANCE_EVENT_EVAL,
    .epoch      = 10,
    .epochs     = 210,
    .iteration  = 407,
    .iterations = 407,
    .step       = 2700,
    .eta        = -1,
    .scalars    = eval_scalars,
    .n_scalars  = 5,
};
static const struct stance_event message = {
    .size = sizeof(struct stance_event),
    .kind = STANCE_EVENT_MESSAGE,
    .text = "step_2700.safetensors written",
};

START_TEST(text_has_mmengines_form)
{
    struct logger l = logger_of("text", folder, STANCE_OK);
    char          text[2048], *line, *rest;
    static const char *const want[] = {
        " - stance - INFO - Epoch(train)   [9][ 50/270]  lr: 5.0000e-04  eta: 1:02:03  time: "
        "0.3124  data_time: 0.0104  "
        "memory: 5600  loss: 4.1000e-04  acc_pose: 0.8123  loss_scale: 65536  grad_norm: nan  "
        "skipped: 0  throughput: 51.2500",
        " - stance - INFO - Epoch(val)  [10][407/407]  coco/AP: 0.7500  coco/AP .5: 0.9000  "
        "coco/AP (M): -1.0000  "
        "data_time: 0.0100  time: 0.1000",
        " - stance - INFO - step_2700.safetensors written",
    };

    setlocale(LC_ALL, "de_DE.UTF-8"); /* where it is installed, a comma must not come of it */
    l.ops->event(l.state, &train_event);
    read_file("train.log", text, sizeof text); /* each line is there at once */
    ck_assert_ptr_nonnull(strstr(text, want[0]));
    l.ops->event(l.state, &eval_event);
    l.ops->event(l.state, &message);
    end(&l);
    setlocale(LC_ALL, "C");
    read_file("train.log", text, sizeof text);
    line = strtok_r(text, "\n", &rest);
    for (int i = 0; i < 3; i++) {
        ck_assert_ptr_nonnull(line);
        ck_assert_msg(strcmp(line + 19, want[i]) == 0, "%s", line); /* behind 2026/11/30 12:00:00 */
        ck_assert_msg(line[4] == '/' && line[7] == '/' && line[13] == ':', "%s", line);
        line = strtok_r(NULL, "\n", &rest);
    }
    ck_assert_ptr_null(line);
}
END_TEST

START_TEST(lines_are_added)
{
    struct logger l = logger_of("text", folder, STANCE_OK);
    char          text[1024];

    l.ops->event(l.state, &message);
    end(&l);
    l = logger_of("text", folder, STANCE_OK);
    l.ops->event(l.state, &message);
    end(&l);
    read_file("train.log", text, sizeof text);
    ck_assert_ptr_nonnull(strchr(text, '\n'));
    ck_assert_str_ne(strchr(text, '\n'), "\n");
}
END_TEST

START_TEST(json_lines_are_json)
{
    struct logger               l = logger_of("jsonl", folder, STANCE_OK);
    char                        text[2048], *line, *rest;
    json_t                     *o;
    static const struct stance_scalar odd[] = { { "a\"b\\c\n", 0.1 }, { "inf", INFINITY } };
    struct stance_event         e = train_event;

    l.ops->event(l.state, &train_event);
    l.ops->event(l.state, &message); /* no scalars: no line */
    l.ops->event(l.state, &eval_event);
    e.scalars   = odd;
    e.n_scalars = 2;
    l.ops->event(l.state, &e);
    end(&l);
    read_file("scalars.jsonl", text, sizeof text);
    ck_assert_msg(strncmp(text, "{\"lr\": 0.0005, \"data_time\": 0.0104, \"loss\": 0.00041, ", 52)
                      == 0,
                  "%s", text);
    line = strtok_r(text, "\n", &rest);
    o = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_msg(o != NULL, "%s", line);
    ck_assert(json_number_value(json_object_get(o, "time")) == 0.3124);
    ck_assert(json_is_null(json_object_get(o, "grad_norm")));
    ck_assert(json_integer_value(json_object_get(o, "epoch")) == 9);
    ck_assert(json_integer_value(json_object_get(o, "iter")) == 2210
              && json_integer_value(json_object_get(o, "step")) == 2210);
    ck_assert_uint_eq(json_object_size(o), 13);
    json_decref(o);
    line = strtok_r(NULL, "\n", &rest);
    o = json_loads(line, 0, NULL);
    ck_assert(json_number_value(json_object_get(o, "coco/AP .5")) == 0.9
              && json_object_get(o, "epoch") == NULL);
    json_decref(o);
    line = strtok_r(NULL, "\n", &rest);
    o = json_loads(line, 0, NULL);
    ck_assert_msg(o != NULL && json_number_value(json_object_get(o, "a\"b\\c\n")) == 0.1, "%s",
                  line);
    ck_assert(json_is_null(json_object_get(o, "inf")));
    json_decref(o);
    ck_assert_ptr_null(strtok_r(NULL, "\n", &rest));
}
END_TEST

START_TEST(failures_are_told_once)
{
    static const char *const names[] = { "text", "jsonl" };
    static const char *const files[] = { "train.log", "scalars.jsonl" };
    char          path[128];
    struct logger l = logger_of(names[_i], "/nonexistent/folder", STANCE_ERR_IO);

    stance_free(l.state);
    if (access("/dev/full", W_OK) != 0) {
        SKIP("loggers on a full disk: no /dev/full");
        return;
    }
    snprintf(path, sizeof path, "%s/%s", folder, files[_i]);
    ck_assert_int_eq(symlink("/dev/full", path), 0);
    l = logger_of(names[_i], folder, STANCE_OK);
    warned[0] = '\0';
    stance_log_set_sink(keep_warning, NULL);
    for (int i = 0; i < 3; i++)
        l.ops->event(l.state, &train_event);
    end(&l);
    stance_log_set_sink(NULL, NULL);
    ck_assert_msg(strstr(warned, "No space left on device") != NULL
                      && strchr(warned, '\n')[1] == '\0',
                  "%s", warned);
}
END_TEST

/* ---- progress ---------------------------------------------------------------------------- */

static char *shown;
static size_t shown_size;

START_TEST(plain_progress_now_and_then)
{
    struct stance_meter m;
    struct stance_event e   = train_event;
    FILE               *out = open_memstream(&shown, &shown_size);
    int                 lines = 0;

    e.scalars   = (const struct stance_scalar[]){ { "loss", 0.5 },
                                                  { "throughput", 12.34 },
                                                  { "loss_scale", 1024 } };
    e.n_scalars = 3;
    e.epoch = e.epochs = 1;
    e.iterations = 100;
    stance_meter_init(&m, out, false);
    ck_assert(!m.terminal);
    for (int i = 1; i <= 100; i++) { /* a second each */
        e.iteration = e.step = i;
        stance_meter_step(&m, &e, i);
    }
    fclose(out);
    for (const char *c = shown; *c != '\0'; c++)
        lines += *c == '\n';
    ck_assert_int_eq(lines, 11); /* the first, one in ten seconds, the last */
    ck_assert_msg(
        strncmp(shown, "epoch 1/1  iter 1/100  loss 0.5  12.3 images/s  scale 1024  eta 1:02:03\n",
                72)
            == 0,
        "%s", shown);
    ck_assert_ptr_null(strchr(shown, '\r'));
    free(shown);
    out = open_memstream(&shown, &shown_size);
    stance_meter_init(&m, out, false);
    m.every = 25;
    for (int i = 1; i <= 100; i++) {
        e.iteration = e.step = i;
        stance_meter_step(&m, &e, 0.01 * i);
    }
    fclose(out);
    lines = 0;
    for (const char *c = shown; *c != '\0'; c++)
        lines += *c == '\n';
    ck_assert_int_eq(lines, 5); /* 1, 26, 51, 76, 100 */
    free(shown);
}
END_TEST

START_TEST(terminal_progress_is_one_line)
{
    struct stance_meter m;
    struct stance_event e   = train_event;
    FILE               *out = open_memstream(&shown, &shown_size);

    stance_meter_init(&m, out, false);
    m.terminal = true;
    m.interval = 0.1;
    m.columns  = 60;
    for (int i = 0; i < 100; i++) {
        e.iteration = 100 + i;
        stance_meter_step(&m, &e, 0.01 * i);
    }
    fflush(out);
    ck_assert_ptr_null(strchr(shown, '\n'));
    for (const char *c = shown, *next; *c == '\r'; c = next) {
        next = strstr(c, "\033[K");
        ck_assert_ptr_nonnull(next);
        ck_assert_int_le(next - c - 1, 59); /* never wraps */
        next += 3;
    }
    ck_assert_ptr_nonnull(strstr(shown, "epoch 9/210 100/270  loss "));
    m.columns = 80; /* the bar gives way to the numbers */
    stance_meter_step(&m, &e, 1.5);
    fflush(out);
    ck_assert_msg(strcmp(shown + shown_size - strlen("  eta 1:02:03\033[K"), "  eta 1:02:03\033[K") == 0, "%s", shown);
    ck_assert_uint_lt(strlen(strrchr(shown, '\r') + 1), 80 + strlen("\033[K"));
    m.columns = 100;
    stance_meter_step(&m, &e, 1.7);
    fflush(out);
    ck_assert_msg(strstr(shown, "epoch 9/210 [################      ] 199/270  loss ") != NULL, "%s", strrchr(shown, '\r') + 1);
    stance_meter_say(&m, "AP 0.75");
    ck_assert_ptr_nonnull(strstr(shown, "\nAP 0.75\n"));
    stance_meter_step(&m, &e, 2);
    stance_log_set_sink(stance_meter_log, &m);
    stance_log_write(STANCE_LOG_WARN, "loader", "image %d is grey", 7);
    stance_log_set_sink(NULL, NULL);
    ck_assert_ptr_nonnull(strstr(shown, "\033[K\nstance: warning: loader: image 7 is grey\n"));
    stance_meter_say(&m, "AP 0.75");
    stance_meter_close_line(&m); /* nothing is open any more */
    fclose(out);
    ck_assert_str_eq(shown + shown_size - 8, "AP 0.75\n");
    free(shown);
}
END_TEST

START_TEST(quiet_is_quiet)
{
    struct stance_meter m;
    FILE               *out = open_memstream(&shown, &shown_size);

    stance_meter_init(&m, out, true);
    stance_meter_step(&m, &train_event, 1);
    stance_meter_say(&m, "AP 0.75");
    stance_meter_close_line(&m);
    fclose(out);
    ck_assert_uint_eq(shown_size, 0);
    free(shown);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("loggers");
    TCase *tc    = tcase_create("all");

    LTDL_SET_PRELOADED_SYMBOLS();
    tcase_add_checked_fixture(tc, start, stop);
    tcase_add_test(tc, text_has_mmengines_form);
    tcase_add_test(tc, lines_are_added);
    tcase_add_test(tc, json_lines_are_json);
    tcase_add_loop_test(tc, failures_are_told_once, 0, 2);
    tcase_add_test(tc, plain_progress_now_and_then);
    tcase_add_test(tc, terminal_progress_is_one_line);
    tcase_add_test(tc, quiet_is_quiet);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
