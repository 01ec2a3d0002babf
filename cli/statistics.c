/* statistics.c - what the elements of a weight are, for inspect --values. */
#include "cli/inspect.h"
#include "cli/outputs.h"

#include <inttypes.h>

/* Reads it. *asked false: nobody wants it, or it has no numbers that can be looked at. */
static exg_status measure(const cli_inspection *i, const exg_weight *weight,
                          exg_weight_statistics *statistics, bool *asked, exg_error *err)
{
    *asked = i->call->values && weight->meta != NULL && !weight->use_pickle &&
             weight->encoding == NULL && !exg_dtype_is_complex(weight->meta->dtype);
    if (!*asked) {
        return EXG_OK;
    }
    EXG_TRY_IN(err, exg_weight_measure(i->weights, weight, statistics, err), "weights[\"%s\"]",
               weight->fqn);
    return EXG_OK;
}

exg_status cli_put_statistics(exg_text *text, const cli_inspection *i, const exg_weight *weight,
                              exg_error *err)
{
    exg_weight_statistics s;
    bool asked;

    EXG_TRY(measure(i, weight, &s, &asked, err));
    if (!asked) {
        return EXG_OK;
    }
    exg_text_printf(text, "  min %.6g max %.6g mean %.6g deviation %.6g", cli_plain(s.min),
                    cli_plain(s.max), cli_plain(s.mean), cli_plain(s.deviation));
    if (s.nan > 0) {
        exg_text_printf(text, " NaN %" PRIu64, s.nan);
    }
    if (s.infinite > 0) {
        exg_text_printf(text, " infinite %" PRIu64, s.infinite);
    }
    if (s.zero > 0) {
        exg_text_printf(text, " zero %" PRIu64, s.zero);
    }
    if (s.denormal > 0) {
        exg_text_printf(text, " denormal %" PRIu64, s.denormal);
    }
    return EXG_OK;
}

exg_status cli_put_statistics_json(exg_text *text, const cli_inspection *i,
                                   const exg_weight *weight, exg_error *err)
{
    exg_weight_statistics s;
    bool asked;

    EXG_TRY(measure(i, weight, &s, &asked, err));
    if (!asked) {
        return EXG_OK;
    }
    const struct {
        const char *key;
        double value;
    } numbers[] = {{"min", s.min}, {"max", s.max}, {"mean", s.mean}, {"deviation", s.deviation}};

    exg_json_member_open(text, "statistics", '{');
    for (size_t n = 0; n < sizeof(numbers) / sizeof(numbers[0]); n++) {
        exg_json_put_key(text, numbers[n].key);
        cli_json_number(text, numbers[n].value, 17);
    }
    exg_json_member_uint(text, "nan", s.nan);
    exg_json_member_uint(text, "infinite", s.infinite);
    exg_json_member_uint(text, "zero", s.zero);
    exg_json_member_uint(text, "denormal", s.denormal);
    exg_json_put_close(text, '}');
    return EXG_OK;
}
