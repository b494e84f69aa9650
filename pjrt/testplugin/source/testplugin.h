// A PJRT plugin for tests, with what no real one offers: failures and delays at will. testplugin.go
// builds it with the C compiler. options.c tells what it can be told.
#ifndef XLA_GO_TESTPLUGIN_H_
#define XLA_GO_TESTPLUGIN_H_

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pjrt_abi.h"

enum { MAX_RANK = 8, MAX_PARAMETERS = 64, MAX_DEVICES = 64 };

// ---- options.c ----

// Everything that can fail: functions of the table, of extensions, and of the profiler.
enum { PROFILER_FUNCTIONS = 8, ENTRIES = FN_COUNT + XF_COUNT + PROFILER_FUNCTIONS };
#define ENTRY_OF_EXTENSION(function) (FN_COUNT + XF_##function)
#define ENTRY_OF_PROFILER(position) (FN_COUNT + XF_COUNT + (position))

typedef struct {
  int64_t devices, delay_ms, fail_execute, fail_result, fail_upload, memory_limit, rank, ranks, timeout_ms;
  int64_t fail[ENTRIES];      // status code with which the call fails
  int64_t outcome[ENTRIES];   // status code with which the work that it starts fails
  int64_t late_ms[ENTRIES];   // how long that work takes, beside delay_ms
  int64_t slow_ms[ENTRIES];   // how long the call itself takes
  bool never[ENTRIES];        // that work does not end before its client does
  bool crash[ENTRIES];        // the call ends the process
} settings;
extern settings options;

void reset_options(void);
// Gives false where there is no such option.
bool set_option(const char *name, size_t name_size, int64_t number, const char *text, size_t text_size);
void read_environment(void);

PJRT_Error *fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
// The failure that the test asked for, NULL for code 0.
PJRT_Error *asked(int code);
struct PJRT_Error { int code; char message[200]; };

// Takes the time that the test asked for.
void take_time(int entry);

// Objects alive, by sort.
enum { LIVE_ERRORS, LIVE_EVENTS, LIVE_BUFFERS, LIVE_EXECUTABLES, LIVE_OTHERS, LIVE_SORTS };
extern int64_t live[LIVE_SORTS];
static inline void *make(int sort, size_t size) {
  __atomic_add_fetch(&live[sort], 1, __ATOMIC_RELAXED);
  return calloc(1, size);
}
static inline void unmake(int sort, void *object) {
  __atomic_sub_fetch(&live[sort], 1, __ATOMIC_RELAXED);
  free(object);
}

// ---- table.c ----
void limit_functions(int64_t count);
void lack_function(const char *name, size_t size);
void offer_extensions(const char *names, size_t size);
void report_minor(int64_t minor);

// ---- work.c: what takes time, and what it is waited for by ----

typedef struct state state;
state *new_state(void);
state *retain(state *s);
void release(state *s);
void finish(state *s, int code);
bool is_done(state *s, int *code);
// Calls function with the outcome, at once where there is one.
void when_done(state *s, void (*function)(int code, void *argument), void *argument);

typedef struct job {
  int entry;            // what started it, for late and never
  int64_t delay_ms;
  int code;             // to end with
  state *after[MAX_PARAMETERS + 1];
  int num_after;
  int (*work)(void *argument);    // gives a status code; NULL for nothing
  void (*drop)(void *argument);   // frees argument, once
  void *argument;
  state *done;
} job;
void start(PJRT_Client *client, job j);
void start_worker(PJRT_Client *client);
void stop_worker(PJRT_Client *client);

PJRT_Event *new_event(state *s);

// ---- exchange.c ----
PJRT_Error *exchange(PJRT_Client_Create_Args *a);
const char *found_by_exchange(void);

// ---- client.c ----
struct PJRT_MemoryDescription { const char *kind; int kind_id; };
struct PJRT_Memory { PJRT_Client *client; struct PJRT_Device *device; int id; char text[48]; };
struct PJRT_DeviceDescription { int id; char text[48], debug_text[64]; PJRT_NamedValue attribute; };
struct PJRT_Device { PJRT_Client *client; struct PJRT_DeviceDescription description; struct PJRT_Memory memory; };
struct PJRT_TopologyDescription { size_t num_devices; struct PJRT_DeviceDescription *descriptions, **list; };
typedef struct worker worker;
struct PJRT_Client {
  size_t num_devices;
  struct PJRT_Device *devices, **list;
  struct PJRT_Memory **memories;
  struct PJRT_TopologyDescription *topology;
  worker *worker;
  int64_t bytes_in_use, peak_bytes, num_allocs;
};

// ---- buffer.c ----
typedef struct {
  PJRT_Client *client;
  int holders, references;
  size_t size;
  char *bytes;
  void (*on_delete)(void *address, void *argument);
  void *argument;
} storage;
storage *hold_storage(storage *s);
void drop_storage(storage *s);
struct PJRT_Buffer {
  PJRT_Client *client;
  PJRT_Device *device;
  int type;
  size_t num_dims;
  int64_t dims[MAX_RANK];
  size_t size;
  storage *storage;
  state *ready;
  bool deleted;
};
// Gives NULL and an error where there is no room or the type is unknown.
PJRT_Buffer *new_buffer(PJRT_Device *device, int type, const int64_t *dims, size_t num_dims, PJRT_Error **error);
void free_buffer(PJRT_Buffer *b);
size_t item_size(int type);
// A job's argument: a copy that keeps the storages at its ends alive.
typedef struct { storage *from_storage, *to_storage; const char *from; char *to; size_t size; } copying;
int do_copy(void *argument);
void drop_copy(void *argument);
PJRT_Error *start_copy(int entry, PJRT_Buffer *b, void *dst, int64_t offset, int64_t size, PJRT_Event **event);

// ---- stream.c: values that a run receives from the host ----
// The stream fills s, and state tells when it is full. The receiver of the callback owns it.
PJRT_CopyToDeviceStream *new_stream(PJRT_Client *client, storage *s, state *full);
storage *new_bytes(PJRT_Client *client, size_t size);  // memory that no buffer owns
int send_to_host(const PJRT_SendCallbackInfo *to, const char *bytes, size_t size);

// ---- program.c ----
typedef struct { int type; size_t num_dims; int64_t dims[MAX_RANK]; size_t size; } array_shape;
typedef struct instruction instruction;
typedef struct {
  int holders;
  size_t num_parameters, num_outputs;
  array_shape parameters[MAX_PARAMETERS], outputs[MAX_PARAMETERS];
  bool donated[MAX_PARAMETERS];
  bool divided;  // a sharding divides a value of it
  instruction *instructions;
  size_t num_instructions;
  int64_t output_ids[MAX_PARAMETERS];
  char name[64];
  char *module;
  size_t module_size;
} program;
program *parse_program(const char *module, size_t size, PJRT_Error **error);
program *hold_program(program *p);
void drop_program(program *p);
// Channels of what the program receives from the host and sends to it, in its order.
typedef struct { int64_t channel; size_t size; } host_transfer;
size_t program_receives(const program *p, host_transfer *into);
size_t program_sends(const program *p, host_transfer *into);
// Computes the outputs; all lists are in the order of the program.
void run_program(const program *p, const char *const *arguments, const char *const *received, char *const *sent,
                 char *const *outputs);
// Reads one field of a protobuf message; NULL at the end and for what cannot be read.
const unsigned char *proto_field(const unsigned char *p, const unsigned char *end, uint64_t *number, uint64_t *value,
                                 const unsigned char **bytes, uint64_t *size);

#define ENTRY(name) PJRT_Error *name(PJRT_##name##_Args *a)
#define DECLARE(name) PJRT_Error *name(PJRT_##name##_Args *a);

#endif
