# SPDX-License-Identifier: Apache-2.0
libstance_la_SOURCES += core/io/entry.c core/io/entry.h core/io/json.c core/io/json.h \
	core/io/json_out.c core/io/json_scan.c core/io/json_scan.h core/io/map.c core/io/map.h core/io/match.c core/io/pickle.c \
	core/io/pickle.h core/io/pickle_globals.c core/io/pickle_globals.h core/io/safetensors.c \
	core/io/safetensors.h core/io/safetensors_out.c core/io/tensors.c core/io/tensors.h \
	core/io/torch.c core/io/torch.h core/io/torch_file.c core/io/torch_file.h \
	core/io/torch_zip.c core/io/utf8.h
