# SPDX-License-Identifier: Apache-2.0
stance_tests += tests/test_json
tests_test_json_LDFLAGS =
tests_test_json_LDADD = $(LDADD) $(JANSSON_LIBS)
stance_tests += tests/test_weights
tests_test_weights_LDFLAGS =
tests_test_weights_LDADD = $(LDADD) $(JANSSON_LIBS)
stance_tests += tests/test_torch
tests_test_torch_LDFLAGS =
tests_test_torch_LDADD = $(LDADD) $(ZIP_LIBS)

# Fuzz targets, here run on their seeds only; see tests/fuzz/replay.h.
stance_tests += tests/fuzz/fuzz_json tests/fuzz/fuzz_safetensors tests/fuzz/fuzz_torch
tests_fuzz_fuzz_json_LDFLAGS =
tests_fuzz_fuzz_safetensors_LDFLAGS =
tests_fuzz_fuzz_torch_LDFLAGS =
EXTRA_DIST += tests/sha256.h tests/fuzz/replay.h
