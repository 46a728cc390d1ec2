# SPDX-License-Identifier: Apache-2.0
# Installed as $(recipedir)/..., with their folders, so that _base_ holds.
stancedatadir = $(datadir)/stance
nobase_dist_stancedata_DATA = \
	recipes/_base_/coco.yaml \
	recipes/_base_/default.yaml \
	recipes/hrnet_w32_coco_256x192.yaml \
	recipes/hrnet_w32_coco_256x192_fp16_dynamic.yaml \
	recipes/hrnet_w32_coco_256x192_fp16_static512.yaml \
	recipes/hrnet_w32_coco_384x288.yaml \
	recipes/hrnet_w48_coco_256x192.yaml \
	recipes/hrnet_w48_coco_384x288.yaml \
	recipes/res101_coco_256x192.yaml \
	recipes/res101_coco_384x288.yaml \
	recipes/res152_coco_256x192.yaml \
	recipes/res152_coco_384x288.yaml \
	recipes/res50_coco_256x192.yaml \
	recipes/res50_coco_256x192_fp16_dynamic.yaml \
	recipes/res50_coco_256x192_fp16_static512.yaml \
	recipes/res50_coco_384x288.yaml \
	recipes/synthetic_hrnet_w16_128x96.yaml
