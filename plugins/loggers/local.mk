# SPDX-License-Identifier: Apache-2.0
plugin_LTLIBRARIES += plugins/loggers/logger_jsonl.la
plugin_LTLIBRARIES += plugins/loggers/logger_text.la
