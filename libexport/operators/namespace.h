/* namespace.h - whose an operator is. */
#ifndef EXG_LIBEXPORT_OPERATORS_NAMESPACE_H
#define EXG_LIBEXPORT_OPERATORS_NAMESPACE_H

#include <stdbool.h>

/* Is "torch.ops.NAMESPACE.NAME..." of one of the namespaces that PyTorch itself registers? All that
 * does not begin with "torch.ops." is Python's or PyTorch's. */
bool exg_is_pytorch_operator(const char *target);

#endif
