/* SPDX-License-Identifier: Apache-2.0
 *
 * Whom to look at: images named on the command line and the boxes of persons on them. */
#ifndef CLI_PREDICT_H
#define CLI_PREDICT_H

#include <stance/error.h>

/** box: x, y, width, height in px; width 0: the whole image. number: in the order of the file. */
struct stance_person { int64_t image, number; double box[4], score; };

struct stance_persons {
    char                **files; /**< [n_files] paths of images, in the order of the command line */
    int64_t               n_files;
    struct stance_person *list;  /**< [n], by image */
    int64_t               n;
    size_t                room_files, room_list;
};

/** Gathers image files (folders: their .jpg, .jpeg and .png, by name) and, from @p boxes (may be NULL),
 *  the persons on them. A file of boxes that names none of the images is an error.
 *  @param[out] out  for stance_persons_free(), also after a failure */
stance_status stance_persons_find(char *const *args, int n_args, const char *boxes, struct stance_persons *out,
                                  struct stance_error *err);
void stance_persons_free(struct stance_persons *p);

/** "DIR/NAME.png" for the overlay of an image, DIR made if need be; images of one name get a number. */
stance_status stance_persons_overlay_path(const struct stance_persons *p, int64_t image, const char *dir, char *path,
                                          size_t size, struct stance_error *err);

#endif
