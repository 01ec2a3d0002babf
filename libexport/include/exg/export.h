/* export.h - libexport: program files, from bytes to a verified program and back. */
#ifndef EXG_EXPORT_H
#define EXG_EXPORT_H

#include <exg/bom.h>
#include <exg/diff.h>
#include <exg/digest.h>
#include <exg/formats.h>
#include <exg/inspection.h>
#include <exg/json_writer.h>
#include <exg/module.h>
#include <exg/operator_library.h>
#include <exg/operators.h>
#include <exg/patch.h>
#include <exg/program.h>
#include <exg/signature.h>
#include <exg/signing.h>
#include <exg/status.h>
#include <exg/store.h>
#include <exg/symint.h>
#include <exg/tensor.h>
#include <exg/text.h>
#include <exg/transform.h>
#include <exg/types.h>
#include <exg/verify.h>
#include <exg/version.h>
#include <exg/weights.h>
#include <exg/weights_edit.h>

#endif
