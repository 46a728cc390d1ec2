# SPDX-License-Identifier: Apache-2.0
EXTRA_DIST += tests/case_yaml.h
stance_tests += tests/test_image
tests_test_image_LDFLAGS =
tests_test_image_LDADD = $(TEST_LIBS) $(JPEG_LIBS) $(YAML_LIBS)
stance_tests += tests/test_crop
tests_test_crop_LDFLAGS =
tests_test_crop_LDADD = $(TEST_LIBS) $(JANSSON_LIBS) $(YAML_LIBS)
if SHARED_PLUGINS
# Opens plugin files.
stance_tests += tests/test_dataset
endif
tests_test_dataset_LDFLAGS =
tests_test_dataset_LDADD = $(TEST_LIBS) $(YAML_LIBS)
if SHARED_PLUGINS
# Opens plugin files.
stance_tests += tests/test_loader
endif
tests_test_loader_LDFLAGS =
stance_tests += tests/fuzz/fuzz_image tests/fuzz/fuzz_coco
tests_fuzz_fuzz_image_LDFLAGS =
tests_fuzz_fuzz_coco_LDFLAGS =
