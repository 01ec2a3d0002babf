/* graph.c - what a stream is asked for, kept and asked for again as one.
 *
 * A graph with collectives counts them as they end, in a word of the device's memory, so that one
 * that does not end can be named: beside the others' work, which waits for no count.
 */
#include "libexec/device/cuda/link.h"

#include <stdlib.h>

struct exg_device_graph {
    exg_device_graph *next;
    cuda_graph graph;
    cuda_graph_exec exec;               /* NULL: dropped */
    cuda_address ended;                 /* the word; 0: there is none */
    const exg_collective **collectives; /* in order */
    uint32_t count, capacity;
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

static exg_status dropped(exg_error *err)
{
    return EXG_FAIL(err, PEER, "COM-003", "an earlier collective failed");
}

static void drop(const exg_cuda_device *d, exg_device_graph *g)
{
    if (g->exec != NULL) {
        (void)d->driver.graph_exec_destroy(g->exec);
    }
    if (g->graph != NULL) {
        (void)d->driver.graph_destroy(g->graph);
    }
    g->exec = NULL;
    g->graph = NULL;
}

/* Where nothing of it is under way. */
static void destroy(const exg_cuda_device *d, exg_device_graph *g)
{
    drop(d, g);
    if (g->ended != 0 && !d->is_lost) {
        (void)d->driver.memory_free(g->ended);
    }
    free(g->collectives);
    free(g);
}

/* Its word may still be written: it goes when the device closes. */
static void abandon(exg_cuda_device *d, exg_device_graph *g)
{
    drop(d, g);
    g->next = d->abandoned;
    d->abandoned = g;
}

void exg_cuda_close_graphs(exg_cuda_device *d)
{
    while (d->abandoned != NULL) {
        exg_device_graph *g = d->abandoned;

        d->abandoned = g->next;
        destroy(d, g);
    }
}

static exg_status need_word(const exg_cuda_device *d, exg_device_graph *g, exg_error *err)
{
    const exg_cuda_driver *c = &d->driver;

    if (d->links == NULL) {
        return EXG_OK;
    }
    EXG_TRY(exg_cuda_check(c, c->memory_alloc(&g->ended, sizeof(uint32_t)), "taking memory", err));
    return exg_cuda_check(c, c->memory_set(g->ended, 0, 1, d->stream), "setting memory", err);
}

exg_status exg_cuda_record(exg_accelerator *device, exg_error *err)
{
    exg_cuda_device *d = (exg_cuda_device *)device;
    exg_device_graph *made = calloc(1, sizeof(*made));
    exg_status status;

    if (made == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    status = exg_cuda_enter(d, err);
    if (status == EXG_OK) {
        status = need_word(d, made, err);
    }
    if (status == EXG_OK) {
        status = check_capture(d, d->driver.capture_begin(d->stream, CUDA_CAPTURE_THREAD),
                               "beginning a graph", err);
    }
    if (status != EXG_OK) {
        abandon(d, made);
        return status;
    }
    d->recording = made;
    return EXG_OK;
}

void exg_cuda_forget(exg_accelerator *device, exg_device_graph *graph)
{
    exg_cuda_device *d = (exg_cuda_device *)device;
    exg_device_graph **at = &d->graphs;

    if (graph == NULL) {
        return;
    }
    (void)d->driver.context_set(d->context);
    while (*at != NULL && *at != graph) {
        at = &(*at)->next;
    }
    if (*at == graph) {
        *at = graph->next;
    }
    d->replayed = d->replayed == graph ? NULL : d->replayed;
    if (graph->ended != 0 && exg_cuda_watch(d, NULL) != EXG_OK) {
        abandon(d, graph);
        return;
    }
    destroy(d, graph);
}

static bool has_room(exg_device_graph *g)
{
    const exg_collective **grown;

    if (g->count < g->capacity) {
        return true;
    }
    g->capacity = g->capacity == 0 ? 32 : 2 * g->capacity;
    grown = realloc((void *)g->collectives, g->capacity * sizeof(*grown));
    if (grown == NULL) {
        g->capacity = g->count;
        return false;
    }
    g->collectives = grown;
    return true;
}

exg_status exg_cuda_mark(exg_cuda_device *d, const exg_collective *what, exg_error *err)
{
    exg_device_graph *g = d->recording;

    if (!has_room(g)) {
        return EXG_OUT_OF_MEMORY(err);
    }
    g->collectives[g->count++] = what;
    return exg_cuda_check(&d->driver, d->driver.memory_set(g->ended, g->count, 1, d->beside),
                          "setting memory", err);
}

/* The stream beside ends in the one that records. */
static exg_status gather(exg_cuda_device *d, const exg_device_graph *g, exg_error *err)
{
    exg_cuda_asked *last = &d->asked[d->asked_count++ % EXG_CUDA_ASKED];

    last->what = NULL;
    return g->count == 0 ? EXG_OK : exg_cuda_follow(d, d->beside, last->ready, d->stream, err);
}

exg_status exg_cuda_recorded(exg_accelerator *device, exg_device_graph **graph, exg_error *err)
{
    exg_cuda_device *d = (exg_cuda_device *)device;
    exg_device_graph *made = d->recording;
    exg_status status;
    exg_status ended;

    *graph = NULL;
    d->recording = NULL;
    if (made == NULL) {
        return dropped(err);
    }
    status = gather(d, made, err);
    ended = check_capture(d, d->driver.capture_end(d->stream, &made->graph), "ending a graph",
                          status == EXG_OK ? err : NULL);
    status = status == EXG_OK ? ended : status;
    if (status == EXG_OK) {
        status = check_capture(d, d->driver.graph_instantiate(&made->exec, made->graph, 0),
                               "making a graph", err);
    }
    if (status != EXG_OK) {
        abandon(d, made);
        return status;
    }
    made->next = d->graphs;
    d->graphs = *graph = made;
    return EXG_OK;
}

exg_status exg_cuda_replay(exg_accelerator *device, const exg_device_graph *graph, exg_error *err)
{
    exg_cuda_device *d = (exg_cuda_device *)device;

    EXG_TRY(exg_cuda_enter(d, err));
    if (graph->exec == NULL) {
        return dropped(err);
    }
    d->replayed = graph;
    return exg_cuda_check(&d->driver, d->driver.graph_launch(graph->exec, d->stream),
                          "asking for a graph", err);
}

/* A graph that is under way goes when it has ended, says the driver. */
void exg_cuda_drop_graphs(exg_cuda_device *d)
{
    (void)d->driver.context_set(d->context);
    if (d->recording != NULL) {
        (void)d->driver.capture_end(d->stream, &d->recording->graph);
        abandon(d, d->recording);
        d->recording = NULL;
    }
    for (exg_device_graph *g = d->graphs; g != NULL; g = g->next) {
        drop(d, g);
    }
}

/* Read on a stream that waits for nothing. Of all that were counted the next run has ended none. */
const exg_collective *exg_cuda_first_open(const exg_cuda_device *d)
{
    const exg_device_graph *g = d->replayed;
    const exg_cuda_driver *c = &d->driver;
    cuda_stream stream;
    uint32_t ended = 0;
    bool is_read;

    if (g == NULL || g->count == 0 || c->stream_create(&stream, CUDA_STREAM_NON_BLOCKING) != 0) {
        return NULL;
    }
    is_read =
        c->copy_out(&ended, g->ended, sizeof(ended), stream) == 0 && c->stream_wait(stream) == 0;
    (void)c->stream_destroy(stream);
    return is_read ? g->collectives[ended % g->count] : NULL;
}
