/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "data/image_codec.h"

#include <string.h>

static uint32_t number(const uint8_t *p, int n, bool big)
{
    uint32_t v = 0;

    for (int i = 0; i < n; i++)
        v = v << 8 | p[big ? i : n - 1 - i];
    return v;
}

int stance_exif_orientation(struct image_source *s, size_t at, size_t size)
{
    enum { TAG_ORIENTATION = 0x0112, TYPE_SHORT = 3 };
    uint8_t  b[12];
    uint32_t offset, count;
    bool     big;

    if (size < 8 || !stance_source_get(s, at, b, 8))
        return 1;
    big = b[0] == 'M';
    if (b[0] != b[1] || (b[0] != 'M' && b[0] != 'I') || number(b + 2, 2, big) != 42)
        return 1;
    offset = number(b + 4, 4, big);
    if (offset > size - 2 || !stance_source_get(s, at + offset, b, 2))
        return 1;
    count = number(b, 2, big);
    for (uint32_t i = 0; i < count; i++) {
        size_t entry = (size_t)offset + 2 + 12 * (size_t)i;

        if (entry + 12 > size || !stance_source_get(s, at + entry, b, 12))
            return 1;
        if (number(b, 2, big) == TAG_ORIENTATION) {
            uint32_t v = number(b + 8, 2, big);

            return number(b + 2, 2, big) == TYPE_SHORT && v >= 1 && v <= 8 ? (int)v : 1;
        }
    }
    return 1;
}
