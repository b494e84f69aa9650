// Events, and a thread per client that does what takes time.
#include <errno.h>
#include <time.h>

#include "testplugin.h"

typedef struct callback {
  void (*function)(int code, void *argument);
  void *argument;
  struct callback *next;
} callback;

struct state {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  int holders;
  bool done;
  int code;
  callback *callbacks;
};

state *new_state(void) {
  state *s = calloc(1, sizeof(*s));
  pthread_mutex_init(&s->mutex, NULL);
  pthread_cond_init(&s->changed, NULL);
  s->holders = 1;
  return s;
}

state *retain(state *s) {
  __atomic_add_fetch(&s->holders, 1, __ATOMIC_ACQ_REL);
  return s;
}

void release(state *s) {
  if (s == NULL || __atomic_sub_fetch(&s->holders, 1, __ATOMIC_ACQ_REL) != 0) return;
  pthread_mutex_destroy(&s->mutex);
  pthread_cond_destroy(&s->changed);
  free(s);
}

void finish(state *s, int code) {
  pthread_mutex_lock(&s->mutex);
  callback *list = NULL;
  if (!s->done) {  // the first outcome counts
    s->done = true;
    s->code = code;
    list = s->callbacks;
    s->callbacks = NULL;
  }
  code = s->code;
  pthread_cond_broadcast(&s->changed);
  pthread_mutex_unlock(&s->mutex);
  while (list != NULL) {
    callback *next = list->next;
    list->function(code, list->argument);
    free(list);
    list = next;
  }
}

bool is_done(state *s, int *code) {
  pthread_mutex_lock(&s->mutex);
  bool done = s->done;
  if (code != NULL) *code = s->code;
  pthread_mutex_unlock(&s->mutex);
  return done;
}

void when_done(state *s, void (*function)(int code, void *argument), void *argument) {
  pthread_mutex_lock(&s->mutex);
  bool done = s->done;
  int code = s->code;
  if (!done) {
    callback *c = malloc(sizeof(*c));
    *c = (callback){function, argument, s->callbacks};
    s->callbacks = c;
  }
  pthread_mutex_unlock(&s->mutex);
  if (done) function(code, argument);
}

// ---- jobs ----

typedef struct task {
  job job;
  worker *worker;
  int waits;  // for so many things: what comes before, and start itself
  int failure;
  bool parked;
  struct timespec due;
  struct task *next;
} task;

struct worker {
  pthread_t thread;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  task *queue, *parked;
  int tasks;  // not yet ended, queued or not
  bool stopping;
};

static void end_task(task *t, int code) {
  worker *w = t->worker;
  if (code == 0) code = t->failure != 0 ? t->failure : t->job.code;
  if (code == 0 && t->job.work != NULL) code = t->job.work(t->job.argument);
  if (t->job.drop != NULL) t->job.drop(t->job.argument);
  finish(t->job.done, code);
  release(t->job.done);
  free(t);
  pthread_mutex_lock(&w->mutex);
  w->tasks--;
  pthread_cond_broadcast(&w->changed);
  pthread_mutex_unlock(&w->mutex);
}

static bool before(const struct timespec *a, const struct timespec *b) {
  return a->tv_sec != b->tv_sec ? a->tv_sec < b->tv_sec : a->tv_nsec < b->tv_nsec;
}

static void ready_task(task *t) {
  worker *w = t->worker;
  int64_t ms = t->job.delay_ms + options.late_ms[t->job.entry];
  bool park = options.never[t->job.entry];
  if (ms == 0 && !park) {
    end_task(t, 0);
    return;
  }
  clock_gettime(CLOCK_MONOTONIC, &t->due);
  t->due.tv_nsec += (ms % 1000) * 1000000;
  t->due.tv_sec += ms / 1000 + t->due.tv_nsec / 1000000000;
  t->due.tv_nsec %= 1000000000;
  pthread_mutex_lock(&w->mutex);
  task **place = park && !w->stopping ? &w->parked : &w->queue;
  t->parked = park;
  while (*place != NULL && !before(&t->due, &(*place)->due)) place = &(*place)->next;
  t->next = *place;
  *place = t;
  pthread_cond_broadcast(&w->changed);
  pthread_mutex_unlock(&w->mutex);
}

static void one_less(int code, void *argument) {
  task *t = argument;
  if (code != 0) __atomic_store_n(&t->failure, code, __ATOMIC_RELEASE);
  if (__atomic_sub_fetch(&t->waits, 1, __ATOMIC_ACQ_REL) == 0) ready_task(t);
}

void start(PJRT_Client *client, job j) {
  task *t = calloc(1, sizeof(*t));
  t->job = j;
  t->job.done = retain(j.done);
  if (t->job.code == 0) t->job.code = (int)options.outcome[j.entry];
  t->worker = client->worker;
  t->waits = j.num_after + 1;
  pthread_mutex_lock(&t->worker->mutex);
  t->worker->tasks++;
  pthread_mutex_unlock(&t->worker->mutex);
  for (int i = 0; i < j.num_after; i++) when_done(j.after[i], one_less, t);
  one_less(0, t);
}

static void *serve(void *argument) {
  worker *w = argument;
  pthread_mutex_lock(&w->mutex);
  for (;;) {
    if (w->stopping && w->parked != NULL && w->queue == NULL) {
      w->queue = w->parked;
      w->parked = NULL;
    }
    task *t = w->queue;
    if (t == NULL) {
      if (w->stopping && w->tasks == 0) break;
      pthread_cond_wait(&w->changed, &w->mutex);
      continue;
    }
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (before(&now, &t->due) && !w->stopping) {
      pthread_cond_timedwait(&w->changed, &w->mutex, &t->due);
      continue;
    }
    w->queue = t->next;
    int code = t->parked ? 1 : 0;  // CANCELLED
    pthread_mutex_unlock(&w->mutex);
    end_task(t, code);
    pthread_mutex_lock(&w->mutex);
  }
  pthread_mutex_unlock(&w->mutex);
  return NULL;
}

void start_worker(PJRT_Client *client) {
  worker *w = calloc(1, sizeof(*w));
  pthread_mutex_init(&w->mutex, NULL);
  pthread_condattr_t clock;
  pthread_condattr_init(&clock);
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
  pthread_cond_init(&w->changed, &clock);
  pthread_condattr_destroy(&clock);
  client->worker = w;
  if (pthread_create(&w->thread, NULL, serve, w) != 0) abort();
}

// Everything that is under way ends: what waits for its time at once, what would never end cancelled.
void stop_worker(PJRT_Client *client) {
  worker *w = client->worker;
  pthread_mutex_lock(&w->mutex);
  w->stopping = true;
  pthread_cond_broadcast(&w->changed);
  pthread_mutex_unlock(&w->mutex);
  pthread_join(w->thread, NULL);
  pthread_mutex_destroy(&w->mutex);
  pthread_cond_destroy(&w->changed);
  free(w);
}

// ---- events ----

struct PJRT_Event { state *state; };

PJRT_Event *new_event(state *s) {
  PJRT_Event *e = make(LIVE_EVENTS, sizeof(*e));
  e->state = retain(s);
  return e;
}

ENTRY(Event_Destroy) {
  if (a->event != NULL) {
    release(a->event->state);
    unmake(LIVE_EVENTS, a->event);
  }
  return NULL;
}
ENTRY(Event_IsReady) { a->is_ready = is_done(a->event->state, NULL); return NULL; }
ENTRY(Event_Error) {
  int code;
  is_done(a->event->state, &code);
  return asked(code);
}
ENTRY(Event_Await) {
  state *s = a->event->state;
  pthread_mutex_lock(&s->mutex);
  while (!s->done) pthread_cond_wait(&s->changed, &s->mutex);
  int code = s->code;
  pthread_mutex_unlock(&s->mutex);
  return asked(code);
}

typedef struct { void (*function)(PJRT_Error *, void *); void *argument; } watcher;
static void tell(int code, void *argument) {
  watcher w = *(watcher *)argument;
  free(argument);
  w.function(asked(code), w.argument);
}
ENTRY(Event_OnReady) {
  watcher *w = malloc(sizeof(*w));
  *w = (watcher){a->callback, a->user_arg};
  // Held, because the callback may destroy the event.
  state *s = retain(a->event->state);
  when_done(s, tell, w);
  release(s);
  return NULL;
}
ENTRY(Event_Create) {
  state *s = new_state();
  a->event = new_event(s);
  release(s);
  return NULL;
}
ENTRY(Event_Set) {
  if (is_done(a->event->state, NULL)) return fail(9, "the event has been set");
  finish(a->event->state, a->error_code);
  return NULL;
}
