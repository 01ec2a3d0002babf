/* early_maker.h - a GraphModule of the first schema, as text to be changed. */
#ifndef EXG_TESTS_EXPORT_EARLY_MAKER_H
#define EXG_TESTS_EXPORT_EARLY_MAKER_H

#include <exg/formats.h>

/* y = x + w, w = [1, -2]; the seed's example, as exg writes it. */
extern const char early_add[];

/* The meta of each of its three values, entries of tensor_values. */
#define EARLY_META                                                                                 \
    "{\"dtype\": \"f32\", \"sizes\": [{\"as_int\": 2}], \"requires_grad\": true, \"device\": "     \
    "{\"type\": \"cpu\", \"index\": -1}, \"strides\": [{\"as_int\": 1}], \"storage_offset\": "     \
    "{\"as_int\": 0}, \"layout\": \"strided\"}"
#define EARLY_VALUE(name)     "{\"name\": \"" name "\", \"meta\": " EARLY_META "}"
#define EARLY_VALUES(a, b, c) EARLY_VALUE(a) ", " EARLY_VALUE(b) ", " EARLY_VALUE(c)

/* `text` with the first `from` replaced by `to`; good for the next three calls. */
const char *early_with(const char *text, const char *from, const char *to);

/* early_add with the first `from` replaced by `to`; good until the next call. */
const char *early_json(const char *from, const char *to);

/* Opens a text; fails the test when it does not open. */
exg_program *open_text(const char *text);

/* Opens it and gives the status. */
exg_status try_text(const char *text, const exg_open_options *options, exg_error *err);

/* early_add whose one node is `target` with these args, kwargs and outputs. */
const char *early_node(const char *target, const char *args, const char *kwargs,
                       const char *outputs);

/* What is written of it as early JSON, malloc'ed. */
char *saved_text(const exg_program *program);

/* Read and written again, the text is itself: as JSON, by way of .exg, by way of .pt2. */
void expect_itself(const char *text);

/* As JSON it is, and we would write it so without having read it: all is in our order. */
void expect_ours(const char *text);

#endif
