/* lookup.h - targets and weights by their names, found without searching. */
#ifndef EXG_LIBEXPORT_VERIFY_LOOKUP_H
#define EXG_LIBEXPORT_VERIFY_LOOKUP_H

#include "libexport/verify/verifier.h"

#include <exg/weights.h>

/* Between these, and in the graph of the third, operators choose their own dtypes. */
#define EXG_ENTER_AUTOCAST     "torch.amp.autocast_mode._enter_autocast"
#define EXG_EXIT_AUTOCAST      "torch.amp.autocast_mode._exit_autocast"
#define EXG_WRAP_WITH_AUTOCAST "torch.ops.higher_order.wrap_with_autocast"

/* What is known of a target; NULL: out of memory. */
const exg_target *exg_verifier_target(exg_verifier *v, const char *text);

/* As exg_weights_find(), without searching. */
const exg_weight *exg_verifier_weight(const exg_verifier *v, exg_weight_table table,
                                      const char *fqn);

#endif
