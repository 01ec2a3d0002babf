/* outputs.h - outputs of a run: compared with what is expected, and summed up. */
#ifndef EXG_CLI_OUTPUTS_H
#define EXG_CLI_OUTPUTS_H

#include <exg/formats.h>
#include <exg/json_writer.h>
#include <exg/session.h>
#include <exg/tensor.h>
#include <exg/text.h>

/* An output as a tensor: a number is one of rank 0, whose memory is the output's. false: it is
 * neither. */
bool cli_output_tensor(const exg_session_output *output, exg_tensor *tensor);

/* A complex tensor as its parts, one after the other; any other as it is. */
exg_tensor cli_parts_of(const exg_tensor *tensor);

/* A number for people: a NaN has no sign. */
double cli_plain(double x);

/* Element `i` of a row-major tensor, as cli_plain(); complex numbers by their real part. */
double cli_number_at(const exg_tensor *tensor, int64_t i);

#define CLI_RTOL_OF_DTYPE (-1.0) /* what suits the dtype */

/* Of numbers that were rounded once or twice more: torch.testing's, but 1e-4 for those of f32 on.
 */
double cli_rtol_of(exg_dtype dtype);

#define CLI_ATOL_OF_VALUES (-1.0) /* what suits the values */

/* 1e-5; of float32 on a millionth of the largest, where that is more: a sum of many terms rounds at
 * the size of its largest, and may come to nearly nothing. */
double cli_atol_of(const exg_tensor *tensor);

/* |got - want| <= atol + rtol * |want| for every element, or part of a complex one, NaN equal to
 * NaN; integers exactly. MISMATCH RUN-003 tells how many differ and where the worst is. */
exg_status cli_compare(const char *name, const exg_tensor *got, const exg_named_tensor *want,
                       double rtol, double atol, exg_error *err);

/* Dtype, shape, least, largest, mean and first values of an output. */
void cli_put_output(exg_text *text, uint32_t index, const exg_session_output *output);
void cli_put_output_json(exg_text *text, uint32_t index, const exg_session_output *output);

#endif
