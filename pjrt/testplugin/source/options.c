// What the plugin can be told, by create options or, before there is a client, by the environment
// variable TESTPLUGIN_OPTIONS ("name=value;name=value"):
//
//   devices         how many devices there are (1)
//   delay_ms        how long a result and a copy take (0)
//   fail_execute    status code with which the call of every run fails (0: none does)
//   fail_result     status code with which the results of every run fail
//   fail_upload     status code with which the source of every upload is given back
//   memory_limit    bytes that all buffers together may take (0: no limit)
//   ranks           how many processes exchange values (see exchange.c; 0: none does)
//   rank            this one of them
//   timeout_ms      how long one waits for another (10000)
//   fail:ENTRY      status code with which a function fails, for example "fail:Buffer_ToHostBuffer"
//   outcome:ENTRY   status code with which the work that a function starts fails
//   slow:ENTRY      milliseconds that the call takes
//   late:ENTRY      milliseconds that this work takes
//   never:ENTRY     1: this work does not end before the client is destroyed; it is cancelled then
//   crash:ENTRY     1: the call of a function of the table ends the process
//   functions       how many functions the table has
//   minor           the minor version that the plugin reports (read before there is a client)
//   lack            a text: names of functions that are NULL, with spaces between; "optional" is every
//                   function and extension that a plugin can do without
//   extensions      a text: numbers of the extensions that are offered, with spaces between, and signs
//                   for broken ones (see link_extensions)
//
// ENTRY is a function's name without "PJRT_", the name of a function in an extension (see
// PJRT_EXTENSION_FUNCTIONS), or "profiler." and create, destroy, start, stop or collect_data. What
// destroys something does it and fails afterwards. Options hold from the making of a client to that
// of the next.
#include <stdarg.h>
#include <time.h>

#include "testplugin.h"

settings options;
int64_t live[LIVE_SORTS];

static const char *const entry_names[ENTRIES] = {
#define NAME(name) #name,
    PJRT_FUNCTIONS(NAME)
#undef NAME
#define NAME(owner, type, position, function) #function,
    PJRT_EXTENSION_FUNCTIONS(NAME)
#undef NAME
    "profiler.error_destroy", "profiler.error_message", "profiler.error_get_code", "profiler.create",
    "profiler.destroy", "profiler.start", "profiler.stop", "profiler.collect_data"};

PJRT_Error *fail(int code, const char *format, ...) {
  PJRT_Error *e = make(LIVE_ERRORS, sizeof(*e));
  e->code = code;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(e->message, sizeof(e->message), format, arguments);
  va_end(arguments);
  return e;
}

PJRT_Error *asked(int code) { return code == 0 ? NULL : fail(code, "the test asked for a failure"); }

void take_time(int entry) {
  struct timespec left = {options.slow_ms[entry] / 1000, options.slow_ms[entry] % 1000 * 1000000};
  while ((left.tv_sec != 0 || left.tv_nsec != 0) && nanosleep(&left, &left) != 0) {
  }  // Go interrupts threads by signals
}

void reset_options(void) { options = (settings){.devices = 1, .timeout_ms = 10000}; }

static bool is(const char *name, size_t size, const char *what) { return size == strlen(what) && memcmp(name, what, size) == 0; }

static int entry(const char *name, size_t size) {
  for (int i = 0; i < ENTRIES; i++)
    if (is(name, size, entry_names[i])) return i;
  return -1;
}

bool set_option(const char *name, size_t size, int64_t number, const char *text, size_t text_size) {
  const struct { const char *name; int64_t *value; } numbers[] = {
      {"devices", &options.devices},           {"delay_ms", &options.delay_ms},
      {"fail_execute", &options.fail_execute}, {"fail_result", &options.fail_result},
      {"fail_upload", &options.fail_upload},   {"memory_limit", &options.memory_limit},
      {"rank", &options.rank},                 {"ranks", &options.ranks},
      {"timeout_ms", &options.timeout_ms}};
  for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
    if (is(name, size, numbers[i].name)) {
      *numbers[i].value = number;
      return true;
    }
  }
  if (is(name, size, "functions")) return limit_functions(number), true;
  if (is(name, size, "minor")) return report_minor(number), true;
  if (is(name, size, "extensions") && text != NULL) return offer_extensions(text, text_size), true;
  if (is(name, size, "lack") && text != NULL) {
    for (size_t start = 0, i = 0; i <= text_size; i++) {
      if (i < text_size && text[i] != ' ') continue;
      if (i > start) lack_function(text + start, i - start);
      start = i + 1;
    }
    return true;
  }
  const char *colon = memchr(name, ':', size);
  int e = colon == NULL ? -1 : entry(colon + 1, size - (size_t)(colon + 1 - name));
  if (e < 0) return false;
  size_t kind = (size_t)(colon - name);
  if (is(name, kind, "fail")) return options.fail[e] = number, true;
  if (is(name, kind, "outcome")) return options.outcome[e] = number, true;
  if (is(name, kind, "slow")) return options.slow_ms[e] = number, true;
  if (is(name, kind, "late")) return options.late_ms[e] = number, true;
  if (is(name, kind, "crash")) return options.crash[e] = number != 0, true;
  if (is(name, kind, "never")) return options.never[e] = number != 0, true;
  return false;
}

void read_environment(void) {
  const char *text = getenv("TESTPLUGIN_OPTIONS");
  while (text != NULL && *text != 0) {
    const char *end = strchr(text, ';');
    size_t size = end != NULL ? (size_t)(end - text) : strlen(text);
    const char *value = memchr(text, '=', size);
    if (value != NULL) {
      value++;
      set_option(text, (size_t)(value - 1 - text), atoll(value), value, size - (size_t)(value - text));
    }
    text = end != NULL ? end + 1 : NULL;
  }
}
