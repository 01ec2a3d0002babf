/* ways_out.c - what to do where an operator is not there: a table by what its target is. */
#include "libexport/transform/ways_out.h"

#include <stddef.h>
#include <string.h>

exg_status exg_fail_missing(exg_error *err, const char *what, const char *targets)
{
    static const struct {
        const char *part, *fix;
    } ways[] = {
        {"torch._functorch.predispatch.",
         "of torch.vmap and torch.func, save program.run_decompositions(), which writes them out; "
         "where PyTorch fails to, export what "
         "torch.fx.experimental.proxy_tensor.make_fx(function)(*inputs) gives"},
        {"c10d_functional.", "what two ranks call alone does not run: write it as permute_tensor "
                             "or all_to_all_single, which all ranks call"},
        {", not a PyTorch operator",
         "save program.run_decompositions(), which writes out an operator that is made of "
         "PyTorch's; or give a library that has it: --ops FILE.so, exg_operators_register()"},
    };
    exg_status status = EXG_FAIL(err, UNSUPPORTED, "OPR-003", "%s%s", what, targets);

    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        if (strstr(targets, ways[i].part) != NULL) {
            return exg_error_fix(err, status, "%s", ways[i].fix);
        }
    }
    return status;
}
