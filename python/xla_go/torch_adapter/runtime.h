// The Go runtime's function table, and what every kernel does before it uses it.
#pragma once

#include <c10/core/AutogradState.h>
#include <c10/macros/Macros.h>
#include <cxxabi.h>

#include <atomic>

#include "errors.h"
#include "xla_go_dispatch.h"

namespace xla_go {

extern std::atomic<const xla_go_table*> loaded_table;
extern std::atomic<bool> in_forked_child;
extern std::atomic<bool> process_ends;

// Loads Go and gives its table. Takes the GIL; throws what Python's loader raises.
const xla_go_table* load_table();

[[noreturn]] void throw_forked_child();

// From now on every thread but this one stays where it next meets the runtime, without the GIL. At
// the end of the process Python ends each other thread that asks for the GIL, by unwinding its
// stack, and frames of C++ that do not let exceptions through abort the process for it.
void hold_other_threads();

// Where hold_other_threads() was called, by another thread, does not return.
void stay_if_held();

// Does not return. For a thread that Python has ended: where it asked for the GIL, Python unwinds
// its stack, and what runs on the way must neither use Python nor let the unwinding end here.
[[noreturn]] void stay();

// Runs `body` and turns a C++ exception into a Python one.
template <typename Body>
PyObject* guard_python(Body body) {
  try {
    return body();
  } catch (abi::__forced_unwind&) {
    stay();
  } catch (...) {
    return set_python_error();
  }
}

// The first thing in each kernel of key XLA. Loads Go at the first device use, refuses in a
// forked child, and turns this thread's autograd multithreading off, so that a backward runs on
// its caller and torch starts no device thread (which would forbid a later fork).
inline const xla_go_table& enter() {
  c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
  const xla_go_table* table = loaded_table.load(std::memory_order_acquire);
  if (C10_UNLIKELY(table == nullptr)) {
    table = load_table();
  }
  if (C10_UNLIKELY(in_forked_child.load(std::memory_order_relaxed))) {
    throw_forked_child();
  }
  if (C10_UNLIKELY(process_ends.load(std::memory_order_relaxed))) {
    stay_if_held();
  }
  return *table;
}

// Number of xla devices of this process. Loads Go.
int device_count();

// Has device_count() ask again: programs are partitioned over all devices from now on.
void forget_device_count();

// Releases the GIL for its lifetime if this thread holds it. Any call that may block is made
// inside one.
class GilRelease {
 public:
  GilRelease();
  ~GilRelease();
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

 private:
  void* thread_state_ = nullptr;
};

// After a call that may have started a compile: where one was, tells Python, which knows the line
// of the user's code. Else it costs a load.
void report_compiles(int64_t started);
extern std::atomic<int64_t> reported_compiles;
inline void note_compiles(const xla_go_table& table) {
  const int64_t started = __atomic_load_n(table.compiles, __ATOMIC_RELAXED);
  if (C10_UNLIKELY(started != reported_compiles.load(std::memory_order_relaxed))) {
    report_compiles(started);
  }
}

// Before a call that makes nodes of the graph: where they are to tell which Python code made them,
// gives the runtime this thread's stack. Else it costs a load.
void report_stack(const xla_go_table& table);
inline void note_stack(const xla_go_table& table) {
  if (C10_UNLIKELY(__atomic_load_n(table.records_stacks, __ATOMIC_RELAXED) != 0)) {
    report_stack(table);
  }
}

// Runs Python's pending signal handlers, taking the GIL for it. Returns false where a handler
// raised (KeyboardInterrupt as a rule): the caller cleans up and calls throw_interrupt().
bool run_signal_handlers();
[[noreturn]] void throw_interrupt();

}  // namespace xla_go
