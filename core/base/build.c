/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "base/build.h"

#include <stance/plugin.h>

#include <cairo.h>
#include <jansson.h>
#include <png.h>
#include <string.h>
#include <yaml.h>
#include <zip.h>

void stance_build_info(struct stance_string *t)
{
    stance_string_add(t,
                      "version: " PACKAGE_VERSION
                      "\nplugin ABI: %d\ndevice, dataset, task, comm and logger interface: %d\n",
                      STANCE_PLUGIN_ABI, STANCE_UNSTABLE_ABI);
#ifdef __clang__
    stance_string_add(t, "compiler: clang " __clang_version__ "\n");
#else
    stance_string_add(t, "compiler: gcc " __VERSION__ "\n");
#endif
    stance_string_add(t, "configure: %s\n", &STANCE_CONFIGURE_OPTIONS[strspn(STANCE_CONFIGURE_OPTIONS, " ")]);
    stance_string_add(t, "%s", STANCE_CONFIGURE_FOUND);
    stance_string_add(t, "plugin folder: %s\nrecipe folder: %s\n", STANCE_PLUGIN_DIR, STANCE_RECIPE_DIR);
    stance_string_add(t, "libyaml: %s\n", yaml_get_version_string());
    stance_string_add(t, "jansson: %s\n", jansson_version_str());
    stance_string_add(t, "libjpeg-turbo, built with: " STANCE_TURBOJPEG_VERSION "\n");
    stance_string_add(t, "libpng: %s\n", png_get_libpng_ver(NULL));
    stance_string_add(t, "libzip: %s\n", zip_libzip_version());
    stance_string_add(t, "cairo: %s\n", cairo_version_string());
}
