/* SPDX-License-Identifier: Apache-2.0
 *
 * Curves of runs: reading the files of a work folder, axes, figures, the page, and `stance plot`. */
#include "config.h"

#include "fault.h"
#include "program.h"

#include "plot/report.h"

#include <math.h>
#include <sys/stat.h>

/* ---- axes -------------------------------------------------------------------------------------------------- */

static const struct axis_case {
    enum stance_axis_kind kind;
    double                min, max;
    bool                  tight, whole;
    const char           *texts; /* all ticks; NULL: the rules alone */
} axes[] = {
    { STANCE_AXIS_LINEAR, 0, 360, true, true, "0 100 200 300 " },
    { STANCE_AXIS_LINEAR, 0, 1, false, false, "0.0 0.2 0.4 0.6 0.8 1.0 " },
    { STANCE_AXIS_LINEAR, 0, 5e-4, false, false, "0 0.0001 0.0002 0.0003 0.0004 0.0005 " },
    { STANCE_AXIS_LINEAR, 0, 5e-6, false, false, "0 1e-6 2e-6 3e-6 4e-6 5e-6 " },
    { STANCE_AXIS_LINEAR, 0, 0, false, true, "0 1 " },
    { STANCE_AXIS_LINEAR, 7, 7, false, true, NULL },
    { STANCE_AXIS_LINEAR, -3, -3, false, false, NULL },
    { STANCE_AXIS_LINEAR, 0, 210000, true, true, "0 50k 100k 150k 200k " },
    { STANCE_AXIS_LINEAR, 0, 5e6, true, true, NULL },
    { STANCE_AXIS_LINEAR, 0, 3, true, true, "0 1 2 3 " },
    { STANCE_AXIS_LINEAR, 0, 1, true, true, "0 1 " },
    { STANCE_AXIS_LINEAR, -1e288, 1e288, false, false, NULL },
    { STANCE_AXIS_LINEAR, 0, 5e-324, false, false, "0.0 0.2 0.4 0.6 0.8 1.0 " },
    { STANCE_AXIS_LINEAR, 1, 1 + 1e-15, false, false, NULL },
    { STANCE_AXIS_LOG10, 4e-4, 6e-3, false, false, "0.0002 0.0005 0.001 0.002 0.005 0.01 " },
    { STANCE_AXIS_LOG10, 1e-6, 3, false, false, NULL },
    { STANCE_AXIS_LOG10, 1, 1, false, false, "1 2 " },
    { STANCE_AXIS_LOG10, 0.3, 0.3, false, false, NULL },
    { STANCE_AXIS_LOG10, 1e-280, 1e280, false, false, NULL },
    { STANCE_AXIS_LOG2, 65536, 65536, false, false, "2^15 2^16 2^17 " },
    { STANCE_AXIS_LOG2, 1, 65536, false, false, "2^0 2^3 2^6 2^9 2^12 2^15 " },
    { STANCE_AXIS_LOG2, 1, 4294967296., false, false, NULL },
    { STANCE_AXIS_LOG2, 1e-38, 3e38, false, false, NULL },
    { STANCE_AXIS_LOG2, 700, 900, false, false, "2^9 2^10 " },
};

START_TEST(axis_holds_its_values)
{
    const struct axis_case *k = &axes[_i];
    struct stance_axis      a;
    char                    texts[256] = "";

    stance_axis_make(&a, k->kind, k->min, k->max, k->tight, k->whole, 6);
    ck_assert_msg(isfinite(a.low) && isfinite(a.high) && a.low < a.high, "%g to %g", a.low, a.high);
    ck_assert_msg(a.low <= k->min * (1 + 1e-9) + 1e-300 || k->min < 0, "%g > %g", a.low, k->min);
    ck_assert_msg(a.high >= k->max * (1 - 1e-9), "%g < %g", a.high, k->max);
    ck_assert_msg(a.n >= 1 && a.n <= 9, "%d ticks", a.n);
    for (int i = 0; i < a.n; i++) {
        double at = stance_axis_place(&a, a.tick[i].at);

        ck_assert_msg(at >= -1e-6 && at <= 1 + 1e-6, "%s at %g", a.tick[i].text, at);
        ck_assert_msg(strlen(a.tick[i].text) <= 7, "%s", a.tick[i].text);
        if (i > 0) {
            ck_assert_msg(a.tick[i].at > a.tick[i - 1].at, "%g, %g", a.tick[i - 1].at, a.tick[i].at);
            ck_assert_msg(strcmp(a.tick[i].text, a.tick[i - 1].text) != 0 || k->max - k->min < 1e-12, "%s twice", a.tick[i].text);
        }
        snprintf(texts + strlen(texts), sizeof texts - strlen(texts), "%s ", a.tick[i].text);
    }
    if (k->texts != NULL)
        ck_assert_str_eq(texts, k->texts);
}
END_TEST

/* ---- work folders -------------------------------------------------------------------------------------------- */

static void write_into(const char *folder, const char *name, const char *text)
{
    char path[300];

    ck_assert_int_eq(program_shell("mkdir -p '%s/%s'", program_folder, folder), 0);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    program_write(path, text);
}

static double value(const struct stance_curves *c, const char *name, int64_t step)
{
    const struct stance_series *s = stance_curves_find(c, name);

    for (size_t i = 0; s != NULL && i < s->n; i++)
        if (s->point[i].step == step)
            return s->point[i].value;
    return NAN;
}

static size_t points(const struct stance_curves *c, const char *name)
{
    const struct stance_series *s = stance_curves_find(c, name);

    return s != NULL ? s->n : 0;
}

static const char histogram[] =
    "{\"step\": %d, \"scale\": 512, \"first\": -40, \"activations\": {\"zero\": 5, \"below\": 0, \"above\": 0, \"inf\": 0, \"nan\": 0, "
    "\"counts\": [0,0,0,0,0,0,0,0,0,0,0,1,2,3,4,5,6,7,8,9,9,9,8,7,6,5,4,3,2,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}, "
    "\"weights\": {\"zero\": 0, \"below\": 0, \"above\": 0, \"inf\": 0, \"nan\": 0, "
    "\"counts\": [0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1,2,3,4,5,6,5,4,3,2,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}}\n";

static void write_histograms(const char *folder, int a, int b)
{
    char text[2 * sizeof histogram + 40];
    int  n = snprintf(text, sizeof text, histogram, a);

    snprintf(text + n, sizeof text - (size_t)n, histogram, b);
    write_into(folder, "histogram.jsonl", text);
}

/* Three starts: one that was killed at step 5 and within a line, one that went on from a checkpoint at
 * step 2 and also ended, and a tenth within the same second. */
static void write_joined(void)
{
    write_into("w/20260101_000000", "scalars.jsonl",
               "{\"loss\": 1, \"loss_scale\": 65536, \"step\": 1}\n{\"loss\": 2, \"loss_scale\": 65536, \"step\": 2}\n"
               "{\"AP\": 0.25, \"AP50\": -1, \"step\": 2}\n{\"loss\": 3, \"loss_scale\": 65536, \"step\": 3}\n"
               "{\"loss\": 4, \"only_here\": 1, \"step\": 4}\n{\"loss\": 5, \"ste");
    write_into("w/20260101_000000-2", "scalars.jsonl",
               "{\"loss\": 30, \"grad_norm\": null, \"note\": \"x\", \"step\": 3}\n{\"loss\": 40, \"step\": 4}\n");
    write_into("w/20260101_000000-10", "scalars.jsonl", "\xef\xbb\xbf{\"loss\": 400, \"step\": 4}\r\n\n{\"loss\": 500, \"step\": 5}");
    write_histograms("w/20260101_000000", 2, 4);
    write_histograms("w/20260101_000000-2", 3, 5);
    write_into("w/20260101_000001", "train.log", "no scalars here\n");
    write_into("w/.hidden", "scalars.jsonl", "not read");
}

START_TEST(starts_are_joined)
{
    struct stance_curves c;
    struct stance_error  err = STANCE_ERROR_INIT;

    write_joined();
    ck_assert_msg(stance_curves_read(program_path("w"), &c, &err) == STANCE_OK, "%s", err.text);
    ck_assert_str_eq(c.label, "w");
    ck_assert_uint_eq(c.n_starts, 3);
    ck_assert_str_eq(c.newest, program_path("w/20260101_000000-10"));
    ck_assert_uint_eq(points(&c, "loss"), 5);
    ck_assert(value(&c, "loss", 1) == 1 && value(&c, "loss", 2) == 2 && value(&c, "loss", 3) == 30);
    ck_assert(value(&c, "loss", 4) == 400 && value(&c, "loss", 5) == 500); /* whole without its line end */
    ck_assert(value(&c, "AP", 2) == 0.25 && value(&c, "AP50", 2) == -1);
    ck_assert_uint_eq(points(&c, "only_here"), 0);  /* done again by the later start */
    ck_assert_uint_eq(points(&c, "grad_norm"), 0);  /* nothing finite */
    ck_assert_uint_eq(points(&c, "note"), 0);
    ck_assert_uint_eq(c.n_histograms, 3);
    ck_assert(c.histogram[0].step == 2 && c.histogram[1].step == 3 && c.histogram[2].step == 5);
    ck_assert(c.histogram[2].e.scale == 512 && c.histogram[2].e.activation.zero == 5);
    ck_assert_uint_eq(c.histogram[2].e.weight.count[25], 6);
    stance_curves_clear(&c);
    /* One start by itself. */
    ck_assert_msg(stance_curves_read(program_path("w/20260101_000000"), &c, &err) == STANCE_OK, "%s", err.text);
    ck_assert(c.n_starts == 1 && points(&c, "loss") == 4 && value(&c, "only_here", 4) == 1);
    stance_curves_clear(&c);
}
END_TEST

static const struct { const char *scalars, *histogram, *says; stance_status status; } broken[] = {
    { "", NULL, NULL, STANCE_OK },
    { "{\"loss\": 1", NULL, NULL, STANCE_OK }, /* nothing but a cut line */
    { "{\"loss\": 1, \"step\": 1}\n{\"loss\": \n{\"loss\": 3, \"step\": 3}\n", NULL, "/scalars.jsonl:2:10: the text ends", STANCE_ERR_FORMAT },
    { "{\"loss\": 1, \"step\": 1}\n\n{\"loss\": 2}\n", NULL, "/scalars.jsonl:3:12: this object has no 'step'", STANCE_ERR_FORMAT },
    { "{\"loss\": 1, \"step\": -1}\n", NULL, "/scalars.jsonl:1:24: step -1 is negative", STANCE_ERR_FORMAT },
    { "{\"loss\": 1, \"step\": 1.5}\n", NULL, "/scalars.jsonl:1:", STANCE_ERR_FORMAT },
    { "{\"loss\": NaN, \"step\": 1}\n", NULL, "/scalars.jsonl:1:10: NaN", STANCE_ERR_FORMAT },
    { "[1, 2]\n", NULL, "/scalars.jsonl:1:", STANCE_ERR_FORMAT },
    { "{\"loss\": 1, \"step\": 1}\n", "{\"step\": 1}\n", "/histogram.jsonl:1:", STANCE_ERR_FORMAT },
    { "{\"loss\": 1, \"step\": 1}\n", "{\"step\": 1, \"scale\": 1, \"first\": -40, \"weights\": {\"counts\": [1]}}\n",
      "1 counts instead of 56", STANCE_ERR_FORMAT },
    { "{\"loss\": 1, \"step\": 1}\n", "{\"step\": 1, \"scale\": 1, \"first\": -40, \"weights\": {\"zero\": -1}}\n",
      "a count is negative", STANCE_ERR_FORMAT },
    { "{\"loss\": 1, \"step\": 1}\n", "{\"step\": 1, \"sca", NULL, STANCE_OK },
    { NULL, NULL, "/w: neither it nor a folder in it has a scalars.jsonl", STANCE_ERR_INPUT },
};

START_TEST(broken_files_are_told)
{
    struct stance_curves c;
    struct stance_error  err = STANCE_ERROR_INIT;
    stance_status        status;

    ck_assert_int_eq(program_shell("mkdir -p %s/w/empty", program_folder), 0);
    if (broken[_i].scalars != NULL)
        write_into("w/1", "scalars.jsonl", broken[_i].scalars);
    if (broken[_i].histogram != NULL)
        write_into("w/1", "histogram.jsonl", broken[_i].histogram);
    status = stance_curves_read(program_path("w"), &c, &err);
    ck_assert_msg(status == broken[_i].status, "%d: %s", (int)status, err.text);
    if (broken[_i].says != NULL)
        ck_assert_msg(strstr(err.text, broken[_i].says) != NULL && strchr(err.text, '\n') == NULL, "%s", err.text);
    if (status != STANCE_OK)
        ck_assert_int_eq(stance_exit_status(status), 2);
    stance_curves_clear(&c);
}
END_TEST

/* Zeros that a crash of the machine leaves at the end of a file are a cut line too. */
START_TEST(zeros_at_the_end)
{
    static const char    text[] = "{\"loss\": 1, \"step\": 1}\n\0\0\0\0\0\0";
    struct stance_curves c   = { .label = NULL };
    struct stance_error  err = STANCE_ERROR_INIT;

    ck_assert_msg(stance_curves_add_scalars(&c, text, sizeof text - 1, "x", &err) == STANCE_OK, "%s", err.text);
    ck_assert_uint_eq(points(&c, "loss"), 1);
    stance_curves_clear(&c);
}
END_TEST

/* ---- figures --------------------------------------------------------------------------------------------------- */

static char page[4 << 20];

static const struct stance_panel *panel_of(const struct stance_figure *f, const char *title)
{
    for (int i = 0; i < f->n_panels; i++)
        if (strncmp(f->panel[i].title, title, strlen(title)) == 0)
            return &f->panel[i];
    return NULL;
}

static int count(const char *text, const char *what)
{
    int n = 0;

    for (const char *at = text; (at = strstr(at, what)) != NULL; at++)
        n++;
    return n;
}

START_TEST(panels_of_a_run)
{
    struct stance_curves  c[2];
    struct stance_figure *f   = calloc(1, sizeof *f);
    struct stance_error   err = STANCE_ERROR_INIT;

    ck_assert_ptr_nonnull(f);
    write_joined();
    write_into("v/1", "scalars.jsonl", "{\"loss\": 0.5, \"step\": 700}\n{\"AP\": 0.5, \"step\": 700}\n");
    ck_assert_int_eq(stance_curves_read(program_path("w"), &c[0], &err), STANCE_OK);
    ck_assert_int_eq(stance_curves_read(program_path("v"), &c[1], &err), STANCE_OK);
    stance_figure_make(f, c, 1);
    ck_assert_int_eq(f->n_panels, 4); /* loss, AP, loss scale, exponents; what has no numbers has no panel */
    ck_assert_int_eq(panel_of(f, "COCO AP")->n, 2);
    ck_assert(panel_of(f, "COCO AP")->legend && panel_of(f, "Loss")->last == 5);
    ck_assert_str_eq(panel_of(f, "Gradients of step")->title, "Gradients of step 5 (%)");
    stance_figure_make(f, c, 2);
    ck_assert_int_eq(panel_of(f, "Loss")->n, 2);
    ck_assert_int_eq(panel_of(f, "COCO AP")->n, 2); /* AP alone, of each */
    ck_assert_int_eq(panel_of(f, "Loss scale")->n, 1);
    ck_assert_int_eq(panel_of(f, "Loss")->last, 700);
    stance_curves_clear(&c[0]);
    stance_curves_clear(&c[1]);
    free(f);
}
END_TEST

/* Long runs are thinned without losing their extremes, and the figure does not grow with them. */
START_TEST(long_runs_are_thinned)
{
    struct stance_curves  c   = { .label = NULL };
    struct stance_figure *f   = calloc(1, sizeof *f);
    struct stance_error   err = STANCE_ERROR_INIT;
    char                 *text = malloc(8 << 20);
    size_t                n = 0;

    ck_assert(f != NULL && text != NULL);
    for (int i = 1; i <= 100000; i++)
        n += (size_t)sprintf(text + n, "{\"throughput\": %d, \"step\": %d}\n", i == 54321 ? 1000 : 10 + i % 7, i);
    ck_assert_int_eq(stance_curves_add_scalars(&c, text, n, "x", &err), STANCE_OK);
    ck_assert_uint_eq(points(&c, "throughput"), 100000);
    c.label = stance_strdup("long");
    stance_figure_make(f, &c, 1);
    ck_assert_msg(stance_figure_write(f, program_path("long.svg"), &err) == STANCE_OK, "%s", err.text);
    program_read(program_path("long.svg"), page, sizeof page);
    ck_assert_uint_lt(strlen(page), 60000);
    ck_assert_int_eq(count(page, "<polyline class=\"k4"), 1);
    /* The peak, at the top of the axis: y 40 of the panel, which begins at 44. */
    ck_assert_msg(strstr(page, ",84 ") != NULL, "the peak is not drawn");
    stance_curves_clear(&c);
    free(text);
    free(f);
}
END_TEST

/* Names from files are text and nothing else. */
START_TEST(hostile_names)
{
    const char *const     bad = "</title><script>alert('1')</script>&amp;\"";
    struct stance_curves  c;
    struct stance_figure *f   = calloc(1, sizeof *f);
    struct stance_error   err = STANCE_ERROR_INIT;

    ck_assert_ptr_nonnull(f);
    write_into("h", "scalars.jsonl", "{\"loss\": 1, \"</svg><script>x</script>\": 2, \"\\u0000\": 3, \"step\": 1}\n{\"AP\": 0.5, \"step\": 1}\n");
    write_into("h", "recipe.yaml", "a: </pre><script>alert(2)</script>\nb: \xff\xfe\x01\n");
    write_into("h", "environment.txt", "precision: <img src=x onerror=alert(3)>\ndevice: <b>cpu</b> 1\n");
    write_into("h", "train.log", "x - INFO - overflow in step 1, <script>alert(4)</script>\nnothing\n");
    ck_assert_msg(stance_curves_read(program_path("h"), &c, &err) == STANCE_OK, "%s", err.text);
    stance_free(c.label);
    c.label = stance_strdup(bad);
    stance_figure_make(f, &c, 1);
    ck_assert_msg(stance_report_write(program_path("h.html"), f, &err) == STANCE_OK, "%s", err.text);
    ck_assert_msg(stance_figure_write(f, program_path("h.svg"), &err) == STANCE_OK, "%s", err.text);
    ck_assert_msg(stance_figure_write(f, program_path("h.png"), &err) == STANCE_OK, "%s", err.text);
    for (int i = 0; i < 2; i++) {
        program_read(program_path(i == 0 ? "h.html" : "h.svg"), page, sizeof page);
        ck_assert_msg(strstr(page, "<script") == NULL && strstr(page, "<img") == NULL && strstr(page, "<b>cpu") == NULL, "%s", page);
        ck_assert_int_ge(count(page, "&lt;/title&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&amp;amp;&quot;"), 1);
        ck_assert_int_eq(count(page, "<svg"), count(page, "</svg>"));
    }
    program_read(program_path("h.html"), page, sizeof page);
    for (int i = 2; i <= 4; i++) {
        char text[40];

        snprintf(text, sizeof text, "alert(%d)", i);
        ck_assert_msg(strstr(page, text) != NULL, "%s is missing", text);
    }
    ck_assert(strstr(page, "\xff") == NULL && strstr(page, "\x01") == NULL);
    ck_assert(strstr(page, "in step 1, &lt;script") != NULL && strstr(page, "<li>nothing") == NULL);
    stance_curves_clear(&c);
    free(f);
}
END_TEST

/* One page that needs nothing else: no address in it, no script, both colour schemes. */
START_TEST(page_stands_alone)
{
    struct stance_error err = STANCE_ERROR_INIT;

    write_joined();
    write_into("w/20260101_000000-10", "environment.txt", "stance: 0.1\nprecision: fp16\ndevice: cpu 1.0\n");
    write_into("w/20260101_000000-10", "recipe.yaml", "train: {epochs: 3}\n");
    ck_assert_msg(stance_report_of(program_path("w"), program_path("w/20260101_000000-10"), &err) == STANCE_OK, "%s", err.text);
    program_read(program_path("w/20260101_000000-10/report.html"), page, sizeof page);
    for (const char *const *no = (const char *const[]){ "http:", "https:", "src=", "href=", "url(", "<script", "@import", NULL }; *no != NULL; no++)
        ck_assert_msg(strstr(page, *no) == NULL, "%s", *no);
    for (const char *const *yes = (const char *const[]){ "<!DOCTYPE html>", "prefers-color-scheme:dark", "<b>0.250</b><span>best AP, after step 2",
                                                         "<b>500</b><span>loss at the end", "train: {epochs: 3}", "<b>fp16</b>", "<b>cpu</b>",
                                                         "<title>Loss scale</title>", "3 starts", NULL }; *yes != NULL; yes++)
        ck_assert_msg(strstr(page, *yes) != NULL, "%s is missing", *yes);
    ck_assert_int_eq(count(page, "<svg"), 4);
    /* A start without scalars gets none. */
    ck_assert_int_eq(stance_report_of(program_path("w"), program_path("w/20260101_000001"), &err), STANCE_OK);
    ck_assert_int_ne(access(program_path("w/20260101_000001/report.html"), F_OK), 0);
}
END_TEST

START_TEST(every_request_for_memory_may_fail)
{
    static const char *const names[] = { "m.html", "m.svg", "m.png" };
    bool                     done = false;

    write_joined();
    for (long n = 0; !done; n++) {
        struct stance_curves  c      = { .label = NULL };
        struct stance_error   err    = STANCE_ERROR_INIT;
        struct stance_figure *f      = NULL;
        stance_status         status;

        ck_assert_int_lt(n, 2000);
        fault_after(n);
        status = stance_curves_read(program_path("w"), &c, &err);
        if (status == STANCE_OK) {
            f      = stance_calloc(1, sizeof *f);
            status = f != NULL ? STANCE_OK : STANCE_ERR_NOMEM;
        }
        if (status == STANCE_OK)
            stance_figure_make(f, &c, 1);
        for (int i = 0; i < 3 && status == STANCE_OK; i++)
            status = i == 0 ? stance_report_write(program_path(names[i]), f, &err) : stance_figure_write(f, program_path(names[i]), &err);
        ck_assert_msg(status == STANCE_OK || status == STANCE_ERR_NOMEM, "request %ld: %s", n, err.text);
        stance_free(f);
        stance_curves_clear(&c);
        ck_assert_msg(fault_live == 0, "request %ld: %ld blocks are left", n, fault_live);
        stance_set_allocator(NULL);
        done = status == STANCE_OK;
        ck_assert_msg(done || access(program_path(names[2]), F_OK) != 0, "request %ld", n);
    }
    /* No temporary files. */
    ck_assert_int_eq(program_shell("ls %s | grep -q tmp", program_folder), 1);
}
END_TEST

/* ---- the program -------------------------------------------------------------------------------------------------- */

static const struct { const char *arguments; int status; const char *says; } calls[] = {
    { "plot", 2, "an argument is missing" },
    { "plot nowhere", 2, "nowhere: No such file or directory" },
    { "plot empty", 2, "empty: neither it nor a folder in it has a scalars.jsonl" },
    { "plot none", 2, "none: its scalars.jsonl has nothing to draw yet" },
    { "plot w v", 2, "--out FILE is needed for several runs" },
    { "plot w --out x.txt", 2, "ends with none of .png, .svg and .html" },
    { "plot w --out nowhere/x.png", 1, "nowhere/x.png" },
    { "plot bad", 2, "bad/1/scalars.jsonl:2:" },
    { "plot w w w w w w w w w w w w w w w w w --out x.png", 2, "more than 16 runs" },
};

START_TEST(wrong_calls)
{
    write_joined();
    write_into("v/1", "scalars.jsonl", "{\"loss\": 0.5, \"step\": 7}\n");
    write_into("none/1", "scalars.jsonl", "{\"step\": 7}\n");
    write_into("bad/1", "scalars.jsonl", "{\"step\": 7}\n{oh}\n");
    ck_assert_int_eq(program_shell("mkdir %s/empty", program_folder), 0);
    ck_assert_msg(program_run("%s", calls[_i].arguments) == calls[_i].status, "%s", program_err);
    ck_assert_msg(strstr(program_err, calls[_i].says) != NULL, "%s", program_err);
    ck_assert_msg(program_lines(program_err) == 1 && strncmp(program_err, "stance: ", 8) == 0, "%s", program_err);
    ck_assert_str_eq(program_out, "");
}
END_TEST

static void check_png(const char *name)
{
    unsigned char head[24];
    FILE         *f = fopen(program_path(name), "rb");

    ck_assert_msg(f != NULL, "%s", name);
    ck_assert_uint_eq(fread(head, 1, sizeof head, f), sizeof head);
    fclose(f);
    ck_assert_int_eq(memcmp(head, "\x89PNG\r\n\x1a\n", 8), 0);
    ck_assert_int_eq(head[18] << 8 | head[19], 2 * (16 + 2 * (STANCE_PANEL_WIDTH + 16)));
}

START_TEST(figures_of_runs)
{
    write_joined();
    write_into("v/1", "scalars.jsonl", "{\"loss\": 0.5, \"step\": 7}\n");
    ck_assert_msg(program_run("plot w/") == 0, "%s", program_err);
    ck_assert_str_eq(program_out, "w/curves.png\nw/curves.svg\nw//20260101_000000-10/report.html\n");
    check_png("w/curves.png");
    ck_assert_int_eq(access(program_path("w/20260101_000000-10/report.html"), F_OK), 0);
    ck_assert_msg(program_run("plot w v --out both.png") == 0, "%s", program_err);
    ck_assert_str_eq(program_out, "both.png\n");
    check_png("both.png");
    ck_assert_msg(program_run("plot w v --out both.html") == 0, "%s", program_err);
    program_read(program_path("both.html"), page, sizeof page);
    ck_assert(strstr(page, "<td>w</td>") != NULL && strstr(page, "<td>v</td>") != NULL);
    /* The same files give the same figure. */
    ck_assert_msg(program_run("plot w --out again.svg") == 0, "%s", program_err);
    ck_assert_int_eq(program_shell("cmp %s/again.svg %s/w/curves.svg", program_folder, program_folder), 0);
}
END_TEST

static const char recipe[] =
    "model:\n  task: top_down\n  backbone: {name: resnet, depth: 18, stem_channels: 8, base_channels: 8}\n"
    "  head: {name: heatmap, deconv: [16]}\n  loss: {name: joints_mse, use_target_weight: true}\n"
    "data:\n  dataset: synthetic\n  input_size: [64, 64]\n  heatmap_size: [4, 4]\n  sigma: 1\n"
    "  train: {samples: 16}\n  val: {samples: 4}\n"
    "train:\n  epochs: 3\n  batch_size: 4\n  workers: 1\n  eval_interval: 3\n  log_interval: 1\n"
    "  optimizer: {name: adam, lr: 5.0e-4}\n  schedule: {name: step, steps: [2]}\ndevice: ref\nthreads: 1\n";

/* A whole run with diagnosis and one without: the same checkpoint, and what diagnosis leaves. */
START_TEST(run_with_diagnosis)
{
    const char *options = "--device cpu --precision fp16 --scaler dynamic:init_scale=16777216";

    if (program_run("inspect --exists device/cpu") != 0) { /* no scale is large enough for these gradients in fp32 */
        SKIP("run with diagnosis: device 'cpu' is not in this build");
        return;
    }
    program_write("r.yaml", recipe);
    ck_assert_msg(program_run("train r.yaml --quiet --work-dir plain %s", options) == 0, "%s", program_err);
    ck_assert_int_eq(program_shell("ls %s/plain/*/histogram.jsonl 2> /dev/null", program_folder), 2);
    ck_assert_int_eq(program_shell("ls %s/plain/*/report.html > /dev/null", program_folder), 0);
    ck_assert_msg(program_run("train r.yaml --quiet --work-dir looked %s --debug-overflow", options) == 0, "%s", program_err);
    ck_assert_int_eq(program_shell("cd %s && cmp plain/step_12.safetensors looked/step_12.safetensors", program_folder), 0);
    ck_assert_msg(strstr(program_err, "stance: warning: train: overflow in step 1, loss scale ") != NULL
                      && strstr(program_err, "backward: first not finite is ") != NULL, "%s", program_err);
    ck_assert_int_eq(program_shell("cd %s/looked/* && test $(wc -l < histogram.jsonl) = 1 && grep -q 'INFO - overflow in step 1,' train.log && "
                                   "grep -q 'gradients of step' train.log && grep -q '<h2>Overflows' report.html && "
                                   "grep -q 'Gradients of step' report.html", program_folder), 0);
    /* By the recipe's keys, and a resumed run, whose start is joined. */
    ck_assert_msg(program_run("train r.yaml --quiet --work-dir looked %s --epochs 4 --resume --set train.histogram_interval=2 "
                              "--set train.debug_overflow=true", options) == 0, "%s", program_err);
    ck_assert_int_eq(program_shell("cd %s/looked && cat */histogram.jsonl | wc -l | grep -qx 4", program_folder), 0);
    ck_assert_msg(program_run("plot looked --out l.html") == 0, "%s", program_err);
    ck_assert_int_eq(program_shell("cd %s && grep -q '<p>2 starts' l.html && grep -q '<b>16</b>' l.html", program_folder), 0);
}
END_TEST

/* A run that diverges says where, in one line. */
START_TEST(end_of_a_diverged_run)
{
    program_write("r.yaml", recipe);
    ck_assert_msg(program_run("train r.yaml --quiet --work-dir d --device ref --set train.max_consecutive_skips=2 --set train.optimizer.lr=1000 "
                              "--set train.optimizer.name=sgd --set model.loss.loss_weight=1e6 --epochs 30") == 4, "%s", program_err);
    ck_assert_msg(program_lines(program_err) == 1 && strstr(program_err, "2 steps in a row") != NULL && strstr(program_err, ", from ") != NULL
                      && strstr(program_err, "are not finite") != NULL, "%s", program_err);
    ck_assert_int_eq(program_shell("grep -q 'overflow in step' %s/d/*/report.html", program_folder), 1);
    ck_assert_int_eq(program_shell("grep -q '<h2>Overflows' %s/d/*/report.html", program_folder), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plot");
    TCase *plain = tcase_create("axes"), *files = tcase_create("files"), *runs = tcase_create("runs");

    tcase_add_loop_test(plain, axis_holds_its_values, 0, sizeof axes / sizeof *axes);
    tcase_add_checked_fixture(files, program_start, program_stop);
    tcase_add_test(files, starts_are_joined);
    tcase_add_loop_test(files, broken_files_are_told, 0, sizeof broken / sizeof *broken);
    tcase_add_test(files, zeros_at_the_end);
    tcase_add_test(files, panels_of_a_run);
    tcase_add_test(files, long_runs_are_thinned);
    tcase_add_test(files, hostile_names);
    tcase_add_test(files, page_stands_alone);
    tcase_add_test(files, every_request_for_memory_may_fail);
    tcase_set_timeout(files, 60);
    tcase_add_checked_fixture(runs, program_start, program_stop);
    tcase_add_loop_test(runs, wrong_calls, 0, sizeof calls / sizeof *calls);
    tcase_add_test(runs, figures_of_runs);
    tcase_add_test(runs, run_with_diagnosis);
    tcase_add_test(runs, end_of_a_diverged_run);
    tcase_set_timeout(runs, 120);
    suite_add_tcase(suite, plain);
    suite_add_tcase(suite, files);
    suite_add_tcase(suite, runs);
    return run_suite(suite);
}
