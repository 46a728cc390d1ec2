/* SPDX-License-Identifier: Apache-2.0
 *
 * COCO keypoint files as they stand: annotated persons, and result lists. What a file says is checked
 * here; whether the two files fit together is eval_file.c's matter. */
#ifndef EVAL_READ_H
#define EVAL_READ_H

#include <stance/error.h>

/** What an entry of `annotations` or of a result list has. */
enum { STANCE_HAS_CATEGORY = 1, STANCE_HAS_AREA = 2, STANCE_HAS_BOX = 4 };

struct stance_entry {
    int64_t  id; /**< annotations only */
    int64_t  image_id, category_id;
    double   area, score, box[4];
    size_t   first;   /**< of its numbers in the file's `numbers` */
    size_t   numbers; /**< length of its `keypoints` */
    unsigned has;
    bool     crowd;
};

struct stance_category {
    int64_t id;
    int64_t keypoints; /**< length of its list of names; -1: it has none */
    bool    human;     /**< the names are COCO's 17 */
};

/** Arrays are from stance_calloc. */
struct stance_eval_data {
    const char             *name; /**< of the file, for messages; the reader's caller's */
    int64_t                *image_ids;
    struct stance_category *categories;
    struct stance_entry    *entries; /**< in file order */
    double                 *numbers; /**< the `keypoints` of all entries, one after the other */
    size_t                  images, n_categories, n_entries, n_numbers;
    size_t                  image_room, category_room, entry_room, number_room;
};

enum stance_eval_kind { STANCE_EVAL_TRUTH, STANCE_EVAL_RESULTS };

/** Reads a file. Annotations are called "annotation ID" in messages, results "result INDEX".
 *  @return STANCE_OK; STANCE_ERR_INPUT (cannot be opened); STANCE_ERR_FORMAT (the text names the file
 *          and line, the entry and the reason); STANCE_ERR_NOMEM */
stance_status stance_eval_read(const char *path, enum stance_eval_kind kind,
                               struct stance_eval_data *out, struct stance_error *err) STANCE_MUST_CHECK;
/** Likewise from memory. @param name  stands for the file in messages */
stance_status stance_eval_read_memory(const void *text, size_t size, const char *name,
                                      enum stance_eval_kind kind, struct stance_eval_data *out,
                                      struct stance_error *err) STANCE_MUST_CHECK;
/** Accepts zeroed data. */
void stance_eval_data_free(struct stance_eval_data *d);

#endif
