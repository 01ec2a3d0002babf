/* http_plugin.h - what libexg_http.so gives: libcurl behind a table of functions, so that only a
 * process that opens an address loads it. The plugin uses nothing of exg.
 *
 * Threads: any, one at a time a client.
 */
#ifndef EXG_LIBEXPORT_HTTP_HTTP_PLUGIN_H
#define EXG_LIBEXPORT_HTTP_HTTP_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXG_HTTP_PLUGIN_VERSION 1
#define EXG_HTTP_PLUGIN_SYMBOL  "exg_http_plugin_table"
#define EXG_HTTP_PLUGIN_FILE    "libexg_http.so"

typedef enum exg_http_outcome {
    EXG_HTTP_DONE,    /* there is an answer, whatever it says, and all of it was taken */
    EXG_HTTP_ENDED,   /* by take() */
    EXG_HTTP_URL,     /* it is no address */
    EXG_HTTP_CONNECT, /* no server, or it hung up before an answer */
    EXG_HTTP_TLS,     /* its certificate, or the protocol, does not hold */
    EXG_HTTP_TIME,    /* too little came for too long */
    EXG_HTTP_MOVED,   /* too many redirections, or one to what is not followed */
    EXG_HTTP_CUT,     /* the answer ended too early */
    EXG_HTTP_FAILED
} exg_http_outcome;

#define EXG_HTTP_TEXT_MAX 256

/* What an answer says of itself. */
typedef struct exg_http_answer {
    long status;                      /* of the last one, behind redirections; 0: none came */
    char etag[EXG_HTTP_TEXT_MAX];     /* "": none, or too long */
    char modified[EXG_HTTP_TEXT_MAX]; /* the date of the last change, the same */
    bool has_range;
    uint64_t first, last; /* of the part, if it is one: first <= last */
    bool has_total;
    uint64_t total;                  /* bytes of the whole file */
    char message[EXG_HTTP_TEXT_MAX]; /* what libcurl says of a fault */
} exg_http_answer;

/* Takes a part of the body; false: no more of it is wanted. */
typedef bool exg_http_take_fn(void *user, const exg_http_answer *answer, const void *bytes,
                              size_t length);

typedef struct exg_http_request {
    const char *url;
    uint64_t first, last;  /* the bytes that are asked for */
    const char *validator; /* an ETag or a date: else the whole file is wanted; NULL: whatever */
    const char *token;     /* NULL: none */
    uint32_t timeout, redirects;
} exg_http_request;

typedef struct exg_http_client exg_http_client; /* with its connections */

typedef struct exg_http_plugin {
    uint32_t version;
    exg_http_client *(*create)(void); /* NULL: out of memory */
    void (*destroy)(exg_http_client *client);
    exg_http_outcome (*get)(exg_http_client *client, const exg_http_request *request,
                            exg_http_take_fn *take, void *user, exg_http_answer *answer);
} exg_http_plugin;

#endif
