/* http.c - files on servers as sources of bytes: what they are, read by parts.
 *
 * Each address that is opened is a resource, which stays as long as the exg_http or a source of it
 * does. The first request asks for its first bytes, and tells its length and its validator; every
 * other one says that it wants a part of that same file.
 */
#include <exg/http.h>

#include "libexport/base/arena.h"
#include "libexport/base/options.h"
#include "libexport/base/require.h"
#include "libexport/http/http_plugin.h"

#include <ctype.h>
#include <dlfcn.h>
#include <exg/text.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define TIMEOUT      30
#define REDIRECTS    5
#define HEAD_BYTES   (64u << 10) /* that are asked for first */
#define WHOLE_BYTES  (16u << 20) /* a file of no more is taken whole from who gives no parts */
#define PIECE_BYTES  (1u << 20)  /* a read of no more is kept, */
#define PIECES_BYTES (32u << 20) /* of all together no more */
#define TRIES        3

typedef struct piece {
    struct piece *next;
    uint64_t offset, length;
    uint8_t bytes[];
} piece;

typedef struct client {
    struct client *next;
    exg_http_client *handle;
} client;

typedef struct resource {
    struct resource *next;
    struct exg_http *http;
    char *url;
    char validator[EXG_HTTP_TEXT_MAX]; /* "": it has none */
    char *identity;
    uint64_t length;
    uint8_t *whole; /* of a file that came so; NULL: it is read by parts */
    piece *pieces;  /* newest first */
} resource;

struct exg_http {
    atomic_uint references; /* the caller's, and one a source */
    pthread_mutex_t lock;   /* over all that follows, but what never changes of a resource */
    const exg_http_plugin *plugin;
    resource *resources;
    client *idle;
    uint64_t kept; /* bytes of pieces */
    uint32_t timeout, redirects;
    char *token;
};

/* ---- life --------------------------------------------------------------------------------------
 */

exg_status exg_http_create(const exg_http_options *options, exg_http **http, exg_error *err)
{
    EXG_REQUIRE(err, http);
    exg_http_options own = {0};
    exg_http *made;

    *http = NULL;
    EXG_TRY(EXG_READ_OPTIONS(exg_http_options, &own, options, err));
    made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    atomic_init(&made->references, 1);
    made->timeout = own.timeout == 0 ? TIMEOUT : own.timeout;
    made->redirects = own.redirects == 0 ? REDIRECTS : own.redirects;
    made->token = own.token == NULL ? NULL : strdup(own.token);
    if ((own.token != NULL && made->token == NULL) || pthread_mutex_init(&made->lock, NULL) != 0) {
        free(made->token);
        free(made);
        return EXG_OUT_OF_MEMORY(err);
    }
    *http = made;
    return EXG_OK;
}

static void free_resource(resource *r)
{
    while (r->pieces != NULL) {
        piece *next = r->pieces->next;

        free(r->pieces);
        r->pieces = next;
    }
    free(r->whole);
    free(r->identity);
    free(r->url);
    free(r);
}

void exg_http_destroy(exg_http *http)
{
    if (http == NULL ||
        atomic_fetch_sub_explicit(&http->references, 1, memory_order_acq_rel) != 1) {
        return;
    }
    while (http->resources != NULL) {
        resource *next = http->resources->next;

        free_resource(http->resources);
        http->resources = next;
    }
    while (http->idle != NULL) {
        client *next = http->idle->next;

        http->plugin->destroy(http->idle->handle);
        free(http->idle);
        http->idle = next;
    }
    pthread_mutex_destroy(&http->lock);
    free(http->token);
    free(http);
}

static exg_status load(exg_http *http, exg_error *err)
{
    void *library =
        dlopen(EXG_HTTP_PLUGIN_FILE, RTLD_NOW | RTLD_LOCAL); /* stays, as libcurl does */
    const exg_http_plugin *found = library == NULL ? NULL : dlsym(library, EXG_HTTP_PLUGIN_SYMBOL);

    if (found == NULL) {
        exg_status status =
            EXG_FAIL(err, UNSUPPORTED, "HTTP-LOAD", "libcurl cannot be loaded: %.200s", dlerror());

        return exg_error_fix(err, status,
                             "install exg-plugin-http, or build exg where "
                             "libcurl4-openssl-dev is installed");
    }
    if (found->version != EXG_HTTP_PLUGIN_VERSION) {
        return EXG_FAIL(err, UNSUPPORTED, "HTTP-LOAD", "%s is of another version (%u, not %d)",
                        EXG_HTTP_PLUGIN_FILE, found->version, EXG_HTTP_PLUGIN_VERSION);
    }
    http->plugin = found;
    return EXG_OK;
}

/* One that is idle, or a new one; NULL: out of memory. */
static client *take_client(exg_http *http)
{
    client *taken;

    pthread_mutex_lock(&http->lock);
    taken = http->idle;
    http->idle = taken == NULL ? NULL : taken->next;
    pthread_mutex_unlock(&http->lock);
    if (taken == NULL) {
        taken = calloc(1, sizeof(*taken));
        if (taken != NULL) {
            taken->handle = http->plugin->create();
        }
        if (taken != NULL && taken->handle == NULL) {
            free(taken);
            return NULL;
        }
    }
    return taken;
}

static void give_client(exg_http *http, client *taken)
{
    pthread_mutex_lock(&http->lock);
    taken->next = http->idle;
    http->idle = taken;
    pthread_mutex_unlock(&http->lock);
}

/* ---- what can go wrong ------------------------------------------------------------------------
 */

static exg_status tell_status(const char *url, long status, exg_error *err)
{
    static const struct {
        long status;
        const char *what, *fix;
    } rows[] = {
        {401, "it asks who you are", "set EXG_HTTP_TOKEN to a token of that server"},
        {403, "it refuses the file", "look whether the file needs a login, and EXG_HTTP_TOKEN"},
        {404, "there is no such file",
         "look at the address; of a page on the Hugging Face Hub it "
         "is the one with /resolve/ for /blob/"},
        {410, "the file is gone", "look at the address"},
        {416, "the file is shorter than it was", "run it again when nothing changes the file"},
        {429, "it has had too many requests", "wait a while, and run it again"},
    };
    const char *code = status == 404 || status == 410 ? "HTTP-MISSING" : "HTTP-STATUS";
    const char *what = status >= 500 ? "it has a fault of its own" : "it does not give the file";
    const char *fix = status >= 500 ? "run it again later" : "open the address in a browser";

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].status == status) {
            what = rows[i].what;
            fix = rows[i].fix;
        }
    }
    return exg_error_fix(
        err, EXG_FAIL(err, IO, code, "%.300s: the server says %ld: %s", url, status, what), "%s",
        fix);
}

static exg_status tell_changed(const char *url, exg_error *err)
{
    return exg_error_fix(
        err, EXG_FAIL(err, IO, "IO-CHANGED", "%.300s became another file while it was read", url),
        "run it again when nothing changes the file");
}

static exg_status tell_no_range(const char *url, exg_error *err)
{
    return exg_error_fix(err,
                         EXG_FAIL(err, UNSUPPORTED, "HTTP-RANGE",
                                  "%.300s: the server does not give parts of a file", url),
                         "fetch the file, and give the copy");
}

static exg_status tell_outcome(const resource *r, exg_http_outcome outcome,
                               const exg_http_answer *answer, exg_error *err)
{
    static const struct {
        const char *code, *what, *fix;
    } rows[] = {
        [EXG_HTTP_URL] = {"HTTP-URL", "this is no address", "look at the address"},
        [EXG_HTTP_CONNECT] = {"HTTP-CONNECT", "there is no connection to the server",
                              "look at the name of the server, and at the network"},
        [EXG_HTTP_TLS] = {"HTTP-TLS", "the server's certificate does not hold",
                          "look at the address, at the clock, and at the system's certificates"},
        [EXG_HTTP_TIME] = {"HTTP-TIME", "the server is too slow, or silent", "run it again later"},
        [EXG_HTTP_MOVED] = {"HTTP-MOVED", "the server leads too far, or to what is no https://",
                            "open the address in a browser, and give the one that it leads to"},
        [EXG_HTTP_CUT] = {"HTTP-BODY", "the server sent less than it was asked for",
                          "run it again later"},
        [EXG_HTTP_FAILED] = {"HTTP-FAILED", "the request failed", "run it again later"},
    };
    exg_status status =
        outcome == EXG_HTTP_URL
            ? EXG_FAIL(err, USAGE, "HTTP-URL", "%.300s: %s", r->url, rows[outcome].what)
            : exg_error_set(err, __FILE__, __LINE__, EXG_IO, rows[outcome].code,
                            "%.300s: %s (%.150s)", r->url, rows[outcome].what, answer->message);

    return exg_error_fix(err, status, "%s", rows[outcome].fix);
}

/* ---- requests ---------------------------------------------------------------------------------
 */

/* Where the body of an answer goes. */
typedef struct body {
    uint8_t *out; /* room for what was asked for; of a whole file it grows */
    uint64_t length, room;
    bool grows;
    bool refused; /* more than there may be, or not what was asked for */
    uint64_t first, last;
} body;

static bool take_part(body *b, const exg_http_answer *answer, const void *bytes, size_t length)
{
    bool right = answer->has_range && answer->first == b->first && answer->last <= b->last;

    if (!right || length > b->room - b->length) {
        b->refused = true;
        return false;
    }
    memcpy(b->out + b->length, bytes, length);
    b->length += length;
    return true;
}

static bool take_whole(body *b, const exg_http_answer *answer, const void *bytes, size_t length)
{
    uint8_t *grown;

    if (!b->grows || answer->total > WHOLE_BYTES || length > WHOLE_BYTES - b->length) {
        b->refused = true;
        return false;
    }
    if (b->length + length > b->room) {
        uint64_t room = 2 * (b->length + length);

        grown = realloc(b->out, room);
        if (grown == NULL) {
            return false;
        }
        b->out = grown;
        b->room = room;
    }
    memcpy(b->out + b->length, bytes, length);
    b->length += length;
    return true;
}

/* An exg_http_take_fn. */
static bool take_body(void *user, const exg_http_answer *answer, const void *bytes, size_t length)
{
    return answer->status == 206   ? take_part(user, answer, bytes, length)
           : answer->status == 200 ? take_whole(user, answer, bytes, length)
                                   : false;
}

/* "https://server/..." or of this machine, to which nobody listens. */
static bool may_have_token(const char *url)
{
    static const char *const own[] = {"http://127.0.0.1", "http://localhost", "http://[::1]"};
    bool may = strncasecmp(url, "https://", 8) == 0;

    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        size_t length = strlen(own[i]);

        may = may || (strncasecmp(url, own[i], length) == 0 && strchr(":/", url[length]) != NULL);
    }
    return may;
}

static bool is_passing(exg_http_outcome outcome, long status)
{
    return outcome == EXG_HTTP_CUT || status == 429 || (status >= 502 && status <= 504);
}

/* Of a redirection that is not followed the outcome says more. */
static bool is_refusal(exg_http_outcome outcome, long status)
{
    return status >= 400 || (status >= 300 && outcome != EXG_HTTP_MOVED);
}

/* Asks for the bytes [b->first, b->last], again where that may help. */
static exg_status ask(const resource *r, const char *validator, body *b, exg_http_answer *answer,
                      exg_http_outcome *outcome, exg_error *err)
{
    exg_http *http = r->http;
    exg_http_request request = {.url = r->url,
                                .first = b->first,
                                .last = b->last,
                                .validator = validator,
                                .token = may_have_token(r->url) ? http->token : NULL,
                                .timeout = http->timeout,
                                .redirects = http->redirects};
    client *taken = take_client(http);

    if (taken == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (int i = 1;; i++) {
        b->length = 0;
        *outcome = http->plugin->get(taken->handle, &request, take_body, b, answer);
        if (i == TRIES || b->refused || !is_passing(*outcome, answer->status)) {
            break;
        }
        (void)nanosleep(&(struct timespec){.tv_nsec = 200000000L * i}, NULL);
    }
    give_client(http, taken);
    return EXG_OK;
}

/* ---- a resource -------------------------------------------------------------------------------
 */

/* What must stay the same: a strong ETag, or the date. */
static void keep_validator(resource *r, const exg_http_answer *answer)
{
    bool strong = answer->etag[0] == '"';

    memcpy(r->validator, strong ? answer->etag : answer->modified, sizeof(r->validator));
}

static void keep_piece(resource *r, uint64_t offset, const void *bytes, uint64_t length)
{
    exg_http *http = r->http;
    piece *made = length > PIECE_BYTES ? NULL : malloc(sizeof(*made) + (size_t)length);

    if (made == NULL) {
        return;
    }
    made->offset = offset;
    made->length = length;
    memcpy(made->bytes, bytes, (size_t)length);
    pthread_mutex_lock(&http->lock);
    if (http->kept + length <= PIECES_BYTES) {
        http->kept += length;
        made->next = r->pieces;
        r->pieces = made;
        made = NULL;
    }
    pthread_mutex_unlock(&http->lock);
    free(made);
}

static bool find_piece(resource *r, uint64_t offset, uint64_t length, void *out)
{
    const piece *p;

    pthread_mutex_lock(&r->http->lock);
    for (p = r->pieces; p != NULL; p = p->next) {
        if (offset >= p->offset && length <= p->length &&
            offset - p->offset <= p->length - length) {
            memcpy(out, p->bytes + (offset - p->offset), (size_t)length);
            break;
        }
    }
    pthread_mutex_unlock(&r->http->lock);
    return p != NULL;
}

/* The answer to the first request. */
static exg_status begin(resource *r, body *b, exg_http_outcome outcome,
                        const exg_http_answer *answer, exg_error *err)
{
    if (answer->status == 416 && answer->has_total && answer->total == 0) {
        return EXG_OK; /* nothing is in it, so it has no first byte */
    }
    if (is_refusal(outcome, answer->status)) {
        return tell_status(r->url, answer->status, err);
    }
    if (b->refused) {
        return tell_no_range(r->url, err);
    }
    if (outcome == EXG_HTTP_ENDED) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (outcome != EXG_HTTP_DONE) {
        return tell_outcome(r, outcome, answer, err);
    }
    keep_validator(r, answer);
    if (answer->status != 206) {
        r->whole = b->out;
        r->length = b->length;
        b->out = NULL;
        return EXG_OK;
    }
    if (!answer->has_range || b->length != answer->last - answer->first + 1 ||
        (b->length < HEAD_BYTES && b->length != answer->total)) {
        return answer->has_range ? tell_outcome(r, EXG_HTTP_CUT, answer, err)
                                 : tell_no_range(r->url, err);
    }
    r->length = answer->total;
    keep_piece(r, 0, b->out, b->length);
    return EXG_OK;
}

static exg_status make_identity(resource *r, exg_error *err)
{
    exg_text text = EXG_TEXT_EMPTY;

    if (r->validator[0] != '\0') {
        exg_text_printf(&text, "%s %s %llu", r->url, r->validator, (unsigned long long)r->length);
        r->identity = text.data;
        return text.failed ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
    }
    return EXG_OK;
}

static exg_status find_out(resource *r, exg_error *err)
{
    body b = {.out = malloc(HEAD_BYTES), .room = HEAD_BYTES, .grows = true, .last = HEAD_BYTES - 1};
    exg_http_answer answer;
    exg_http_outcome outcome;
    exg_status status = b.out == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;

    status = status == EXG_OK ? ask(r, NULL, &b, &answer, &outcome, err) : status;
    status = status == EXG_OK ? begin(r, &b, outcome, &answer, err) : status;
    free(b.out);
    return status == EXG_OK ? make_identity(r, err) : status;
}

/* exg_byte_source.read */
static exg_status read_bytes(void *user, uint64_t offset, uint64_t length, void *out,
                             exg_error *err)
{
    resource *r = user;
    body b = {.out = out, .room = length, .first = offset, .last = offset + length - 1};
    exg_http_answer answer;
    exg_http_outcome outcome;
    bool same;

    if (r->whole != NULL) {
        memcpy(out, r->whole + offset, (size_t)length);
        return EXG_OK;
    }
    if (find_piece(r, offset, length, out)) {
        return EXG_OK;
    }
    EXG_TRY(ask(r, r->validator[0] == '\0' ? NULL : r->validator, &b, &answer, &outcome, err));
    same = r->validator[0] == '\0' ||
           strcmp(r->validator, r->validator[0] == '"' ? answer.etag : answer.modified) == 0;
    if (answer.status == 200 ||
        (answer.status == 206 && answer.has_total && (answer.total != r->length || !same))) {
        return tell_changed(r->url, err);
    }
    if (is_refusal(outcome, answer.status)) {
        return tell_status(r->url, answer.status, err);
    }
    if (outcome == EXG_HTTP_DONE && b.length == length) {
        keep_piece(r, offset, out, length);
        return EXG_OK;
    }
    return tell_outcome(
        r, outcome == EXG_HTTP_DONE || outcome == EXG_HTTP_ENDED ? EXG_HTTP_CUT : outcome, &answer,
        err);
}

static void close_source(void *user)
{
    exg_http_destroy(((resource *)user)->http);
}

/* ---- opening ----------------------------------------------------------------------------------
 */

/* What an address may not hold as it is, as a file's name may. NULL: out of memory. */
static char *escape(const char *name)
{
    exg_text text = EXG_TEXT_EMPTY;

    for (const char *c = name; *c != '\0'; c++) {
        if ((unsigned char)*c <= ' ' || (unsigned char)*c >= 0x7f ||
            strchr("\"<>\\^`{|}", *c) != NULL) {
            exg_text_printf(&text, "%%%02X", (unsigned)(unsigned char)*c);
        } else {
            exg_text_putc(&text, *c);
        }
    }
    if (exg_text_string(&text) == NULL) {
        exg_text_free(&text);
        return NULL;
    }
    return text.data;
}

/* One of this address that is there; what it is never changes. */
static resource *find_resource(exg_http *http, const char *url)
{
    resource *r;

    pthread_mutex_lock(&http->lock);
    for (r = http->resources; r != NULL && strcmp(r->url, url) != 0; r = r->next) {
    }
    pthread_mutex_unlock(&http->lock);
    return r;
}

static exg_status make_resource(exg_http *http, const char *url, resource **made, exg_error *err)
{
    resource *r = calloc(1, sizeof(*r));
    exg_status status;

    if (r == NULL || (r->url = strdup(url)) == NULL) {
        free(r);
        return EXG_OUT_OF_MEMORY(err);
    }
    r->http = http;
    status = find_out(r, err);
    if (status != EXG_OK) {
        pthread_mutex_lock(&http->lock);
        for (const piece *p = r->pieces; p != NULL; p = p->next) {
            http->kept -= p->length;
        }
        pthread_mutex_unlock(&http->lock);
        free_resource(r);
        return status;
    }
    pthread_mutex_lock(&http->lock);
    r->next = http->resources;
    http->resources = r;
    pthread_mutex_unlock(&http->lock);
    *made = r;
    return EXG_OK;
}

static exg_status open_address(exg_http *http, const char *url, exg_byte_source *source,
                               exg_error *err)
{
    resource *r;
    exg_status status = EXG_OK;

    pthread_mutex_lock(&http->lock);
    status = http->plugin == NULL ? load(http, err) : EXG_OK;
    pthread_mutex_unlock(&http->lock);
    EXG_TRY(status);
    r = find_resource(http, url);
    EXG_TRY(r == NULL ? make_resource(http, url, &r, err) : EXG_OK);
    atomic_fetch_add_explicit(&http->references, 1, memory_order_relaxed);
    *source = (exg_byte_source){.length = r->length,
                                .read = read_bytes,
                                .close = close_source,
                                .user = r,
                                .identity = r->identity};
    return EXG_OK;
}

exg_status exg_http_open_source(void *http, const char *name, exg_byte_source *source,
                                exg_error *err)
{
    EXG_REQUIRE(err, http, name, source);
    char *url;
    exg_status status;

    if (strncasecmp(name, "http://", 7) != 0 && strncasecmp(name, "https://", 8) != 0) {
        return EXG_OK;
    }
    url = escape(name);
    if (url == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    status = open_address(http, url, source, err);
    free(url);
    return status;
}
