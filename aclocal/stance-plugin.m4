# SPDX-License-Identifier: Apache-2.0
#
# STANCE_PLUGIN([MINIMUM-VERSION])
# --------------------------------
# For a project whose plugins are loaded by stance. Needs LT_INIT before it. Finds stance by pkg-config, adds
# its library to LIBS and substitutes:
#   STANCE_CFLAGS          for AM_CPPFLAGS
#   STANCE_PLUGIN_LDFLAGS  for AM_LDFLAGS: a module that exports its descriptor and lacks no symbol
#   plugindir              where `plugin_LTLIBRARIES = KIND_NAME.la` goes: ${libdir}/stance/plugins-<abi>,
#                          below the project's own prefix. Stance looks there if it has that libdir too, or if
#                          STANCE_PLUGIN_PATH or --plugin-path names it. `--with-plugindir=system` takes the
#                          folder of the stance that was found, `--with-plugindir=DIR` any other.
AC_DEFUN([STANCE_PLUGIN], [
AC_REQUIRE([PKG_PROG_PKG_CONFIG])
PKG_CHECK_MODULES([STANCE], [stance m4_ifval([$1], [>= $1])])
stance_plugin_abi=`$PKG_CONFIG --variable=plugin_abi stance`
AC_ARG_WITH([plugindir],
  [AS_HELP_STRING([--with-plugindir=DIR],
    [install plugins in DIR; system: beside those of stance (default: LIBDIR/stance/plugins-ABI)])],
  [], [with_plugindir=no])
AS_CASE([$with_plugindir],
  [no|yes], [plugindir='${libdir}/stance/plugins-'$stance_plugin_abi],
  [system], [plugindir=`$PKG_CONFIG --variable=plugindir stance`],
  [plugindir=$with_plugindir])
AC_SUBST([plugindir])
LIBS="$STANCE_LIBS $LIBS"
STANCE_PLUGIN_LDFLAGS='-module -avoid-version -shared -no-undefined -export-symbols-regex "_LTX_stance_plugin$$"'
AC_SUBST([STANCE_PLUGIN_LDFLAGS])
])
