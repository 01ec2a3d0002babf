/* graph.c - what a stream is asked for, kept and asked for again as one. */
#include "libexec/device/cuda/cuda.h"

#include <stdlib.h>

struct exg_device_graph {
    cuda_graph graph;
    cuda_graph_exec exec;
};

/* A fault of a capture: the work is none that can be recorded. */
static exg_status check_capture(const exg_cuda_device *d, cuda_result result, const char *what,
                                exg_error *err)
{
    if (result >= CUDA_CAPTURE_FAULT_FIRST && result <= CUDA_CAPTURE_FAULT_LAST) {
        return EXG_FAIL(err, UNSUPPORTED, "DEV-009", "%s: CUDA cannot record this work (%d)", what,
                        result);
    }
    return exg_cuda_check(&d->driver, result, what, err);
}

exg_status exg_cuda_record(exg_accelerator *device, exg_error *err)
{
    exg_cuda_device *d = (exg_cuda_device *)device;

    EXG_TRY(exg_cuda_enter(d, err));
    EXG_TRY(check_capture(d, d->driver.capture_begin(d->stream, CUDA_CAPTURE_THREAD),
                          "beginning a graph", err));
    d->is_recording = true;
    return EXG_OK;
}

void exg_cuda_forget(exg_accelerator *device, exg_device_graph *graph)
{
    exg_cuda_device *d = (exg_cuda_device *)device;

    if (graph == NULL) {
        return;
    }
    (void)d->driver.context_set(d->context);
    if (graph->exec != NULL) {
        (void)d->driver.graph_exec_destroy(graph->exec);
    }
    if (graph->graph != NULL) {
        (void)d->driver.graph_destroy(graph->graph);
    }
    free(graph);
}

exg_status exg_cuda_recorded(exg_accelerator *device, exg_device_graph **graph, exg_error *err)
{
    exg_cuda_device *d = (exg_cuda_device *)device;
    exg_device_graph *made = calloc(1, sizeof(*made));
    cuda_graph ended = NULL;
    exg_status status;

    *graph = NULL;
    d->is_recording = false;
    status = check_capture(d, d->driver.capture_end(d->stream, &ended), "ending a graph", err);
    if (made == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    made->graph = ended;
    if (status == EXG_OK) {
        status = check_capture(d, d->driver.graph_instantiate(&made->exec, made->graph, 0),
                               "making a graph", err);
    }
    if (status != EXG_OK) {
        exg_cuda_forget(device, made);
        return status;
    }
    *graph = made;
    return EXG_OK;
}

exg_status exg_cuda_replay(exg_accelerator *device, const exg_device_graph *graph, exg_error *err)
{
    exg_cuda_device *d = (exg_cuda_device *)device;

    EXG_TRY(exg_cuda_enter(d, err));
    d->has_replayed = true;
    return exg_cuda_check(&d->driver, d->driver.graph_launch(graph->exec, d->stream),
                          "asking for a graph", err);
}
