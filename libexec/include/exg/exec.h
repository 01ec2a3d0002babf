/* exec.h - libexec: verified programs, planned and run. */
#ifndef EXG_EXEC_H
#define EXG_EXEC_H

#include <exg/autograd.h>
#include <exg/checkpoint.h>
#include <exg/device.h>
#include <exg/dispatch.h>
#include <exg/distribute.h>
#include <exg/dtensor.h>
#include <exg/export.h>
#include <exg/partition.h>
#include <exg/placement.h>
#include <exg/plan.h>
#include <exg/scalar.h>
#include <exg/session.h>
#include <exg/tensor.h>

#endif
