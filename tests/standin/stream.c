/* stream.c - streams, events and graphs of the stand-in for libcuda.
 *
 * Streams are carried out as late as may be: when somebody waits; with EXG_STANDIN_AHEAD all
 * others then run as far ahead as they can, so that what does not wait for the one is seen. A
 * graph is carried out in the order in which it was recorded.
 */
#include "tests/standin/driver.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

static stream *streams; /* all that there were: others may wait for what was asked of one */

static void add(tasks *list, const task *item)
{
    if (list->count == list->capacity) {
        list->capacity = list->capacity == 0 ? 64 : 2 * list->capacity;
        list->items = realloc(list->items, list->capacity * sizeof(*list->items));
        if (list->items == NULL) {
            abort();
        }
    }
    list->items[list->count++] = *item;
}

void ask(stream *s, const task *item)
{
    s->strays = s->capture != NULL && s->capture->origin != s;
    add(s->capture != NULL ? &s->capture->kept : &s->asked, item);
}

static void fail_with(int result, const char *text)
{
    if (fault == 0) {
        fault = result;
        fault_text = text;
        standin_log("fault: %s", text);
    }
}

static void carry_out_launch(const task *t)
{
    fibre_launch launch = {.kernel = t->function->entry,
                           .params = t->params,
                           .blocks = {t->blocks[0], t->blocks[1], t->blocks[2]},
                           .threads = t->threads,
                           .shared = t->function->module->shared,
                           .shared_bytes = t->function->module->shared_bytes};
    const char *wrong = fibre_run(&launch);

    if (wrong != NULL) {
        fail_with(LAUNCH_FAILED, wrong);
    }
}

static int carry_out(stream *s, uint64_t place);

static void carry_out_work(const task *t)
{
    const char *wrong = t->work(t->params);

    if (wrong != NULL) {
        fail_with(LAUNCH_FAILED, wrong);
    }
}

/* false: it has to wait for another. */
static bool carry_out_task(task *t)
{
    switch (t->kind) {
    case TASK_LAUNCH:
        carry_out_launch(t);
        return true;
    case TASK_WORK:
        carry_out_work(t);
        return true;
    case TASK_EVENT:
        return true;
    case TASK_WAIT:
        return carry_out(t->stream, t->place) != NOT_READY;
    case TASK_MEET:
        return t->meet(t->op, &t->state) != 0;
    default:
        memcpy(t->to, t->from, t->bytes);
        return true;
    }
}

/* What was launched with a graph needs it no longer. */
static void leave_graph(const task *t)
{
    if (t->is_launched && t->keep != NULL) {
        t->keep(t->op, -1);
    }
}

static void drop_tasks(stream *s)
{
    for (uint32_t i = s->done; i < s->asked.count; i++) {
        leave_graph(&s->asked.items[i]);
    }
    for (uint32_t i = 0; i < s->asked.count; i++) {
        free(s->asked.items[i].params);
    }
    s->dropped += s->asked.count;
    s->asked.count = s->done = 0;
}

static uint64_t end_of(const stream *s)
{
    return s->dropped + s->asked.count;
}

/* Until `place` tasks were carried out of all that were ever asked for, or one has to wait. */
static int carry_out(stream *s, uint64_t place)
{
    const char *wrong;
    bool goes_on = true;

    if (s->dropped + s->done >= place) {
        return fault;
    }
    memory_open();
    while (goes_on && s->dropped + s->done < place && fault == 0) {
        goes_on = carry_out_task(&s->asked.items[s->done]);
        if (goes_on) {
            leave_graph(&s->asked.items[s->done++]);
        }
    }
    wrong = memory_close();
    if (wrong != NULL) {
        fail_with(ILLEGAL_ADDRESS, wrong);
    }
    if (s->done == s->asked.count || fault != 0) {
        drop_tasks(s);
    }
    return fault != 0 ? fault : goes_on ? 0 : NOT_READY;
}

static void carry_out_others(const stream *s)
{
    for (stream *other = streams; other != NULL; other = other->next) {
        if (other != s) {
            (void)carry_out(other, end_of(other));
        }
    }
}

/* What one stream waits for may be asked of another already. */
static int carry_out_with_others(stream *s, uint64_t place)
{
    int result;

    if (getenv("EXG_STANDIN_AHEAD") != NULL) {
        carry_out_others(s);
    }
    result = carry_out(s, place);
    if (result != NOT_READY) {
        return result;
    }
    carry_out_others(s);
    return carry_out(s, place);
}

int standin_meet(void *s, standin_meeting *meet, standin_keeping *keep, void *op)
{
    ALONE;

    if (((stream *)s)->capture != NULL) {
        keep(op, 1);
    }
    ask(s, &(task){.kind = TASK_MEET, .meet = meet, .keep = keep, .op = op});
    return 0;
}

void standin_carry_on(void)
{
    ALONE;

    carry_out_others(NULL);
}

uint32_t standin_stream_number(const void *s)
{
    return ((const stream *)s)->number;
}

bool standin_holds(const void *first, size_t bytes)
{
    ALONE;

    return memory_holds(first, bytes);
}

int cuStreamCreate(stream **s, unsigned flags)
{
    ENTER("cuStreamCreate %u", flags);
    *s = calloc(1, sizeof(**s));
    if (*s == NULL) {
        return OUT_OF_MEMORY;
    }
    if (entered->open_streams++ == 0) {
        entered->streams = entered->events = 0;
    }
    (*s)->number = ++entered->streams;
    (*s)->device = entered;
    (*s)->next = streams;
    streams = *s;
    return 0;
}

int cuStreamDestroy_v2(stream *s)
{
    ALONE;

    standin_log("cuStreamDestroy");
    (void)carry_out_with_others(s, end_of(s));
    drop_tasks(s);
    free(s->asked.items);
    s->asked = (tasks){0};
    s->device->open_streams--;
    return 0;
}

static int look_at_stream(stream *s)
{
    ALONE;

    CHECK;
    return s->capture != NULL ? CAPTURE_REFUSED : carry_out_with_others(s, end_of(s));
}

int cuStreamSynchronize(stream *s)
{
    int result;

    standin_log("cuStreamSynchronize s%u", s->number);
    do {
        result = look_at_stream(s);
        sched_yield();
    } while (result == NOT_READY);
    return result;
}

int cuStreamQuery(stream *s)
{
    return look_at_stream(s);
}

int cuMemcpyHtoDAsync_v2(address to, const void *from, size_t bytes, stream *s)
{
    task t = {.kind = TASK_COPY, .to = (void *)(uintptr_t)to, .from = from, .bytes = bytes};

    ENTER("cuMemcpyHtoDAsync %zu", bytes);
    if (!memory_holds(t.to, bytes)) {
        return INVALID_VALUE;
    }
    ask(s, &t);
    return 0;
}

int cuMemcpyDtoHAsync_v2(void *to, address from, size_t bytes, stream *s)
{
    task t = {.kind = TASK_COPY, .to = to, .from = (void *)(uintptr_t)from, .bytes = bytes};

    ENTER("cuMemcpyDtoHAsync %zu", bytes);
    if (!memory_holds(t.from, bytes)) {
        return INVALID_VALUE;
    }
    ask(s, &t);
    return 0;
}

int cuMemcpyDtoDAsync_v2(address to, address from, size_t bytes, stream *s)
{
    task t = {.kind = TASK_COPY,
              .to = (void *)(uintptr_t)to,
              .from = (void *)(uintptr_t)from,
              .bytes = bytes};

    ENTER("cuMemcpyDtoDAsync %zu", bytes);
    if (!memory_holds(t.to, bytes) || !memory_holds(t.from, bytes)) {
        return INVALID_VALUE;
    }
    ask(s, &t);
    return 0;
}

static const char *set_words(const void *params)
{
    const task *t = params;
    unsigned *to = t->to;

    for (size_t i = 0; i < t->bytes / sizeof(*to); i++) {
        to[i] = (unsigned)t->place;
    }
    return NULL;
}

int cuMemsetD32Async(address at, unsigned value, size_t count, stream *s)
{
    task what = {.to = (void *)(uintptr_t)at, .bytes = count * sizeof(unsigned), .place = value};

    ENTER("cuMemsetD32Async %zu s%u", count, s->number);
    if (!memory_holds(what.to, what.bytes)) {
        return INVALID_VALUE;
    }
    return standin_ask(s, set_words, &what, sizeof(what));
}

/* ---- events ----------------------------------------------------------------------------- */

int cuEventCreate(event **e, unsigned flags)
{
    ENTER("cuEventCreate %u", flags);
    *e = calloc(1, sizeof(**e));
    if (*e == NULL) {
        return OUT_OF_MEMORY;
    }
    (*e)->number = ++entered->events;
    return 0;
}

int cuEventDestroy_v2(event *e)
{
    standin_log("cuEventDestroy");
    free(e);
    return 0;
}

/* The default stream has no stream of its own: 1, which the driver calls CU_STREAM_LEGACY. */
static stream *stream_of(stream *s)
{
    static stream legacy;

    return (uintptr_t)s == 1 ? &legacy : s;
}

int cuEventRecord(event *e, stream *s)
{
    s = stream_of(s);
    ENTER("cuEventRecord e%u s%u", e->number, s->number);
    e->stream = s;
    e->capture = s->capture;
    if (s->capture != NULL) {
        e->place = s->capture->kept.count;
        return 0;
    }
    e->place = end_of(s) + 1;
    ask(s, &(task){.kind = TASK_EVENT});
    return 0;
}

/* Of a graph that is being recorded: a stream is drawn into it, or the first one has waited. */
static int wait_in_graph(stream *s, const event *e)
{
    if (e->capture == NULL || (s->capture != NULL && s->capture != e->capture)) {
        return ISOLATED;
    }
    s->capture = e->capture;
    if (e->stream != s) {
        e->stream->strays = false;
    }
    return 0;
}

int cuStreamWaitEvent(stream *s, event *e, unsigned flags)
{
    s = stream_of(s);
    ENTER("cuStreamWaitEvent s%u e%u", s->number, e->number);
    if (flags != 0) {
        return INVALID_VALUE;
    }
    if (e->stream == NULL) {
        return 0;
    }
    if (s->capture != NULL || e->capture != NULL) {
        return wait_in_graph(s, e);
    }
    ask(s, &(task){.kind = TASK_WAIT, .stream = e->stream, .place = e->place});
    return 0;
}

static int look_at_event(event *e, bool carries_out)
{
    ALONE;

    CHECK;
    if (e->capture != NULL) {
        return INVALID_VALUE;
    }
    if (e->stream == NULL || e->stream->dropped + e->stream->done >= e->place) {
        return 0;
    }
    return carries_out ? carry_out_with_others(e->stream, e->place) : NOT_READY;
}

int cuEventSynchronize(event *e)
{
    int result;

    standin_log("cuEventSynchronize e%u", e->number);
    do {
        result = look_at_event(e, true);
        sched_yield();
    } while (result == NOT_READY);
    return result;
}

int cuEventQuery(event *e)
{
    return look_at_event(e, false);
}

/* ---- graphs ----------------------------------------------------------------------------- */

int cuStreamBeginCapture_v2(stream *s, int mode)
{
    ENTER("cuStreamBeginCapture %d", mode);
    s->capture = calloc(1, sizeof(*s->capture));
    if (s->capture == NULL) {
        return OUT_OF_MEMORY;
    }
    s->capture->origin = s;
    return 0;
}

int cuStreamEndCapture(stream *s, graph **g)
{
    int result = 0;

    ENTER("cuStreamEndCapture");
    *g = s->capture;
    for (stream *other = streams; other != NULL; other = other->next) {
        if (other->capture == *g) {
            result = other->strays ? UNJOINED : result;
            other->capture = NULL;
            other->strays = false;
        }
    }
    return result;
}

static task again(const task *from)
{
    task t = *from;

    if (from->params != NULL) {
        t.params = malloc(from->bytes);
        if (t.params == NULL) {
            abort();
        }
        memcpy(t.params, from->params, from->bytes);
    }
    return t;
}

int cuGraphInstantiateWithFlags(graph **exec, graph *g, unsigned long long flags)
{
    ENTER("cuGraphInstantiate %llu of %u", flags, g->kept.count);
    *exec = calloc(1, sizeof(**exec));
    for (uint32_t i = 0; *exec != NULL && i < g->kept.count; i++) {
        task t = again(&g->kept.items[i]);

        if (t.keep != NULL) {
            t.keep(t.op, 1);
        }
        add(&(*exec)->kept, &t);
    }
    return *exec == NULL ? OUT_OF_MEMORY : 0;
}

int cuGraphLaunch(graph *exec, stream *s)
{
    ENTER("cuGraphLaunch");
    for (uint32_t i = 0; i < exec->kept.count; i++) {
        task t = again(&exec->kept.items[i]);

        t.is_launched = true;
        if (t.keep != NULL) {
            t.keep(t.op, 1);
        }
        ask(s, &t);
    }
    return 0;
}

int cuGraphDestroy(graph *g)
{
    ALONE;

    for (uint32_t i = 0; i < g->kept.count; i++) {
        if (g->kept.items[i].keep != NULL) {
            g->kept.items[i].keep(g->kept.items[i].op, -1);
        }
        free(g->kept.items[i].params);
    }
    free(g->kept.items);
    free(g);
    return 0;
}

int cuGraphExecDestroy(graph *exec)
{
    return cuGraphDestroy(exec);
}
