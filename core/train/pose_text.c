/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "train/pose_text.h"

#include <string.h>

/* A name in double quotes, as YAML reads them back. */
static void add_name(struct stance_string *out, const char *name)
{
    stance_string_add(out, "\"");
    for (; *name != '\0'; name++) {
        if (*name == '"' || *name == '\\')
            stance_string_add(out, "\\");
        stance_string_add(out, "%c", *name);
    }
    stance_string_add(out, "\"");
}

void stance_pose_text(const struct stance_pose *p, struct stance_string *out)
{
    const char *comma = "";
    char        number[32];

    stance_string_add(out, "keypoints: [");
    for (int32_t k = 0; k < p->keypoints; k++) {
        stance_string_add(out, "%s", k > 0 ? ", " : "");
        if (p->names != NULL) {
            add_name(out, p->names[k]);
        } else {
            stance_string_add(out, "\"%d\"", k);
        }
    }
    stance_string_add(out, "]\nflip_pairs: [");
    for (int32_t k = 0; p->partner != NULL && k < p->keypoints; k++) {
        if (p->partner[k] > k) {
            stance_string_add(out, "%s[%d, %d]", comma, k, p->partner[k]);
            comma = ", ";
        }
    }
    stance_string_add(out, "]\n");
    if (p->sigmas != NULL) {
        stance_string_add(out, "sigmas: [");
        for (int32_t k = 0; k < p->keypoints; k++) {
            stance_text_of_f64((double)p->sigmas[k], number, sizeof number);
            stance_string_add(out, "%s%s", k > 0 ? ", " : "", number);
        }
        stance_string_add(out, "]\n");
    }
    if (p->bones > 0) {
        stance_string_add(out, "skeleton: [");
        for (int32_t k = 0; k < p->bones; k++)
            stance_string_add(out, "%s[%d, %d]", k > 0 ? ", " : "", p->skeleton[2 * k], p->skeleton[2 * k + 1]);
        stance_string_add(out, "]\n");
    }
}

stance_status stance_pose_parse(struct stance_config *c, const char *text, struct stance_pose *pose,
                                struct stance_error *err)
{
    struct stance_config_node *root;
    stance_status status = stance_config_parse(c, text, strlen(text), "points of the checkpoint", &root, err);

    if (status == STANCE_OK && root == NULL)
        status = STANCE_FAIL(err, STANCE_ERR_FORMAT, "the checkpoint's list of points is empty");
    return status == STANCE_OK ? stance_pose_read(c, root, pose, err) : status;
}
