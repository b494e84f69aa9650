// Programs: HloModuleProtos of elementwise operations on arrays of F32 and S32, matrix products of F32, copies
// of all types, and transfers with the host. What is donated (input_output_alias, buffer_donor) is consumed.
//
// What receives gives a tuple of a value and tokens, of which only the value is looked at.
#include "testplugin.h"

enum opcode { PARAMETER, CONSTANT, AFTER_ALL, RECV, RECV_DONE, GET_TUPLE_ELEMENT, SEND, SEND_DONE, COPY, TUPLE, BROADCAST, ADD, SUBTRACT, MULTIPLY, MAXIMUM, MINIMUM, DOT, NEGATE, ABS, OPCODES };
static const char *const opcode_names[OPCODES] = {"parameter", "constant", "after-all", "recv", "recv-done", "get-tuple-element", "send", "send-done", "copy", "tuple", "broadcast", "add", "subtract", "multiply", "maximum", "minimum", "dot", "negate", "abs"};

struct instruction {
  enum opcode opcode;
  int64_t id, parameter, channel;
  int64_t operands[MAX_PARAMETERS];
  size_t num_operands;
  array_shape shape;
  char *literal;  // of a constant, all elements or one
  size_t literal_size;
  bool divided;  // by a sharding
};

const unsigned char *proto_field(const unsigned char *p, const unsigned char *end, uint64_t *number, uint64_t *value,
                                 const unsigned char **bytes, uint64_t *size) {
  uint64_t values[2] = {0, 0};
  *bytes = NULL;
  *size = 0;
  for (int part = 0; part < 2; part++) {
    if (part == 1 && ((values[0] & 7) == 1 || (values[0] & 7) == 5)) {  // fixed width
      uint64_t width = (values[0] & 7) == 1 ? 8 : 4;
      if ((uint64_t)(end - p) < width) return NULL;
      *number = values[0] >> 3;
      *bytes = p;
      *size = width;
      return p + width;
    }
    for (int shift = 0;; shift += 7) {
      if (p >= end || shift > 63) return NULL;
      values[part] |= (uint64_t)(*p & 127) << shift;
      if (*p++ < 128) break;
    }
  }
  *number = values[0] >> 3;
  *value = values[1];
  if ((values[0] & 7) == 0) return p;
  if ((values[0] & 7) != 2 || values[1] > (uint64_t)(end - p)) return NULL;
  *bytes = p;
  *size = values[1];
  return p + values[1];
}

// EACH runs a block for each field of a message.
#define EACH(message, length)                                                                             \
  for (const unsigned char *at_ = (message), *end_ = at_ + (length), *bytes = NULL; at_ != NULL; at_ = NULL) \
    for (uint64_t number = 0, value = 0, size = 0; (at_ = proto_field(at_, end_, &number, &value, &bytes, &size)) != NULL;)

// Reads one or, packed, several numbers.
static size_t numbers(const unsigned char *bytes, uint64_t size, uint64_t single, int64_t *into, size_t have) {
  if (bytes == NULL) {
    if (have < MAX_PARAMETERS) into[have++] = (int64_t)single;
    return have;
  }
  for (uint64_t i = 0; i < size;) {
    uint64_t v = 0;
    for (int shift = 0; i < size; shift += 7) {
      v |= (uint64_t)(bytes[i] & 127) << shift;
      if (bytes[i++] < 128) break;
    }
    if (have < MAX_PARAMETERS) into[have++] = (int64_t)v;
  }
  return have;
}

// XLA's PrimitiveType as PJRT numbers it; 0 for those that are no array's.
static int pjrt_type(uint64_t type) {
  static const int types[] = {[1] = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, [15] = 14, [16] = 13, [18] = 15, [19] = 16, [20] = 17, [23] = 18, [24] = 19, [25] = 20};
  return type < sizeof(types) / sizeof(types[0]) ? types[type] : 0;
}

static void read_shape(const unsigned char *message, uint64_t length, array_shape *s) {
  int64_t dims[MAX_PARAMETERS];
  EACH(message, length) {
    if (number == 2) s->type = pjrt_type(value);
    if (number == 3) s->num_dims = numbers(bytes, size, value, dims, s->num_dims);
    if (number == 4) {  // tuple_shapes, of which the first counts
      read_shape(bytes, size, s);
      return;
    }
  }
  s->size = item_size(s->type);
  if (s->num_dims > MAX_RANK) s->size = s->num_dims = 0;
  for (size_t i = 0; i < s->num_dims; i++) s->size *= (size_t)(s->dims[i] = dims[i]);
}

static bool read_instruction(const unsigned char *message, uint64_t length, instruction *in, PJRT_Error **error) {
  in->opcode = OPCODES;
  EACH(message, length) {
    if (number == 2) {
      for (int i = 0; i < OPCODES; i++)
        if (size == strlen(opcode_names[i]) && memcmp(bytes, opcode_names[i], size) == 0) in->opcode = (enum opcode)i;
      if (in->opcode == OPCODES) *error = fail(12, "the test plugin has no operation %.*s", (int)size, bytes);
    }
    if (number == 3) read_shape(bytes, size, &in->shape);
    if (number == 9) in->parameter = (int64_t)value;
    if (number == 26) in->channel = (int64_t)value;
    if (number == 35) in->id = (int64_t)value;
    if (number == 40) {
      EACH(bytes, size) if (number == 1 && value != 0) in->divided = true;
    }
    if (number == 36) in->num_operands = numbers(bytes, size, value, in->operands, in->num_operands);
    if (number == 8) {
      EACH(bytes, size) {
        if (number != 8 && number != 4) continue;  // f32s and s32s
        in->literal = realloc(in->literal, in->literal_size + (number == 8 ? size : 4 * MAX_PARAMETERS));
        if (number == 8) {
          memcpy(in->literal + in->literal_size, bytes, size);
          in->literal_size += size;
        } else {
          int64_t list[MAX_PARAMETERS];
          size_t n = numbers(bytes, size, value, list, 0);
          for (size_t i = 0; i < n; i++) {
            int32_t v = (int32_t)list[i];
            memcpy(in->literal + in->literal_size, &v, 4);
            in->literal_size += 4;
          }
        }
      }
    }
    if (*error != NULL) return false;
  }
  return true;
}

static const instruction *by_id(const program *p, int64_t id) {
  for (size_t i = 0; i < p->num_instructions; i++)
    if (p->instructions[i].id == id) return &p->instructions[i];
  return NULL;
}

program *hold_program(program *p) {
  __atomic_add_fetch(&p->holders, 1, __ATOMIC_ACQ_REL);
  return p;
}

void drop_program(program *p) {
  if (p == NULL || __atomic_sub_fetch(&p->holders, 1, __ATOMIC_ACQ_REL) != 0) return;
  for (size_t i = 0; i < p->num_instructions; i++) free(p->instructions[i].literal);
  free(p->instructions);
  free(p->module);
  free(p);
}

static bool is_product(const array_shape *to, const array_shape *x, const array_shape *y) {
  return to->type == 11 && x->type == 11 && y->type == 11 && to->num_dims == 2 && x->num_dims == 2 && y->num_dims == 2 && x->dims[1] == y->dims[0] &&
         to->dims[0] == x->dims[0] && to->dims[1] == y->dims[1];
}

static PJRT_Error *check(program *p, int64_t root) {
  if (p->num_instructions == 0) return fail(3, "not an HLO module");
  for (size_t i = 0; i < p->num_instructions; i++) {
    instruction *in = &p->instructions[i];
    for (size_t k = 0; k < in->num_operands; k++) {
      const instruction *operand = by_id(p, in->operands[k]);
      if (operand == NULL || operand >= in) return fail(3, "an operand that is not there");
      if (in->opcode >= ADD && in->opcode != DOT && operand->shape.size != in->shape.size) return fail(3, "operands of other shapes");
    }
    bool is_transfer = in->opcode >= AFTER_ALL && in->opcode <= SEND_DONE;
    size_t needed = in->opcode <= AFTER_ALL ? 0 : in->opcode == SEND || (in->opcode >= ADD && in->opcode <= DOT) ? 2 : 1;
    if (in->opcode == SEND && in->num_operands == 2) in->shape = by_id(p, in->operands[0])->shape;
    if (in->opcode != TUPLE && in->num_operands != needed) return fail(3, "%zu operands of %s", in->num_operands, opcode_names[in->opcode]);
    if (in->opcode != TUPLE && !is_transfer && in->shape.size == 0 && item_size(in->shape.type) == 0) return fail(12, "an array type that the test plugin does not take");
    if (in->opcode >= BROADCAST && in->shape.type != 11 && in->shape.type != 4) return fail(12, "%s of another type than F32 and S32", opcode_names[in->opcode]);
    if (in->opcode == BROADCAST && by_id(p, in->operands[0])->shape.size != 4) return fail(12, "a broadcast of more than a scalar");
    if (in->opcode == DOT && !is_product(&in->shape, &by_id(p, in->operands[0])->shape, &by_id(p, in->operands[1])->shape))
      return fail(12, "a dot of other than two F32 matrices that fit");
    if (in->opcode == CONSTANT && in->literal_size < item_size(in->shape.type)) return fail(12, "a constant of another type than F32 and S32");
    if (in->opcode == PARAMETER) {
      if (in->parameter < 0 || in->parameter >= MAX_PARAMETERS) return fail(12, "too many parameters");
      if ((size_t)in->parameter >= p->num_parameters) p->num_parameters = (size_t)in->parameter + 1;
      p->parameters[in->parameter] = in->shape;
    }
  }
  const instruction *r = by_id(p, root);
  if (r == NULL) return fail(3, "a program without a root");
  p->num_outputs = r->opcode == TUPLE ? r->num_operands : 1;
  for (size_t i = 0; i < p->num_outputs; i++) {
    p->output_ids[i] = r->opcode == TUPLE ? r->operands[i] : r->id;
    const instruction *o = by_id(p, p->output_ids[i]);
    if (o->opcode == TUPLE) return fail(12, "a tuple in a tuple");
    p->outputs[i] = o->shape;
  }
  return NULL;
}

program *parse_program(const char *module, size_t length, PJRT_Error **error) {
  program *p = calloc(1, sizeof(*p));
  p->holders = 1;
  p->module = malloc(length + 1);
  memcpy(p->module, module, p->module_size = length);
  const unsigned char *entry = NULL;
  uint64_t entry_size = 0, entry_id = 0;
  for (int pass = 0; pass < 2; pass++) {
    EACH((const unsigned char *)p->module, length) {
      if (number == 1 && size < sizeof(p->name)) memcpy(p->name, bytes, size);
      if (number == 6) entry_id = value;
      if ((number == 8 || number == 18) && pass == 0) {  // input_output_alias, buffer_donor
        uint64_t which = number == 8 ? 2 : 1;
        EACH(bytes, size) {
          if (number != 1) continue;
          uint64_t parameter = 0;
          EACH(bytes, size) if (number == which) parameter = value;
          if (parameter < MAX_PARAMETERS) p->donated[parameter] = true;
        }
      }
      if (number != 3 || pass == 0) continue;
      uint64_t id = 0;
      EACH(bytes, size) if (number == 5) id = value;
      if (entry == NULL || id == entry_id) {
        entry = bytes;
        entry_size = size;
      }
    }
  }
  int64_t root = -1;
  size_t room = 0;
  if (entry != NULL) EACH(entry, entry_size) {
    if (number == 6) root = (int64_t)value;
    if (number != 2) continue;
    if (p->num_instructions == room) p->instructions = realloc(p->instructions, (room = 2 * room + 8) * sizeof(p->instructions[0]));
    instruction *in = &p->instructions[p->num_instructions++];
    memset(in, 0, sizeof(*in));
    if (!read_instruction(bytes, size, in, error)) break;
    p->divided = p->divided || in->divided;
  }
  if (*error == NULL) *error = check(p, root);
  if (*error == NULL) return p;
  drop_program(p);
  return NULL;
}

#define ARITHMETIC(name, type)                                                                            \
  static void name(enum opcode opcode, type *to, const type *x, const type *y, size_t n) {                \
    for (size_t i = 0; i < n; i++) switch (opcode) {                                                      \
        case BROADCAST: to[i] = x[0]; break;                                                              \
        case ADD: to[i] = x[i] + y[i]; break;                                                             \
        case SUBTRACT: to[i] = x[i] - y[i]; break;                                                        \
        case MULTIPLY: to[i] = x[i] * y[i]; break;                                                        \
        case MAXIMUM: to[i] = x[i] > y[i] || x[i] != x[i] ? x[i] : y[i]; break; /* NaN stays */            \
        case MINIMUM: to[i] = x[i] < y[i] || x[i] != x[i] ? x[i] : y[i]; break;                           \
        case NEGATE: to[i] = -x[i]; break;                                                                \
        default: to[i] = x[i] < 0 ? -x[i] : x[i];                                                         \
      }                                                                                                   \
  }
ARITHMETIC(compute_f32, float)
ARITHMETIC(compute_s32, int32_t)

static size_t transfers(const program *p, enum opcode opcode, host_transfer *into) {
  size_t n = 0;
  for (size_t i = 0; i < p->num_instructions && n < MAX_PARAMETERS; i++)
    if (p->instructions[i].opcode == opcode) into[n++] = (host_transfer){p->instructions[i].channel, p->instructions[i].shape.size};
  return n;
}
size_t program_receives(const program *p, host_transfer *into) { return transfers(p, RECV, into); }
size_t program_sends(const program *p, host_transfer *into) { return transfers(p, SEND, into); }

static void multiply_matrices(float *to, const float *x, const float *y, const array_shape *left, const array_shape *right) {
  const int64_t rows = left->dims[0], inner = left->dims[1], columns = right->dims[1];
  memset(to, 0, (size_t)(rows * columns) * sizeof(*to));
  for (int64_t i = 0; i < rows; i++)
    for (int64_t k = 0; k < inner; k++)
      for (int64_t j = 0; j < columns; j++) to[i * columns + j] += x[i * inner + k] * y[k * columns + j];
}

void run_program(const program *p, const char *const *arguments, const char *const *received, char *const *sent, char *const *outputs) {
  char **values = calloc(p->num_instructions, sizeof(char *));
  for (size_t i = 0; i < p->num_instructions; i++) {
    const instruction *in = &p->instructions[i];
    if (in->opcode == TUPLE || in->opcode == AFTER_ALL || in->opcode == SEND_DONE) continue;
    if (in->opcode == SEND) {
      memcpy(*sent++, values[by_id(p, in->operands[0]) - p->instructions], in->shape.size);
      continue;
    }
    char *to = values[i] = malloc(in->shape.size + 1);
    const char *x = in->num_operands > 0 && in->opcode != RECV ? values[by_id(p, in->operands[0]) - p->instructions] : NULL;
    const char *y = in->num_operands > 1 ? values[by_id(p, in->operands[1]) - p->instructions] : NULL;
    if (in->opcode == PARAMETER) {
      memcpy(to, arguments[in->parameter], in->shape.size);
    } else if (in->opcode == RECV) {
      memcpy(to, *received++, in->shape.size);
    } else if (in->opcode == COPY || in->opcode == RECV_DONE || in->opcode == GET_TUPLE_ELEMENT) {
      memcpy(to, x, in->shape.size);
    } else if (in->opcode == CONSTANT) {
      size_t item = item_size(in->shape.type);
      for (size_t k = 0; k < in->shape.size; k += item) memcpy(to + k, in->literal + (k + item <= in->literal_size ? k : 0), item);
    } else if (in->opcode == DOT) {
      multiply_matrices((float *)to, (const float *)x, (const float *)y, &by_id(p, in->operands[0])->shape, &by_id(p, in->operands[1])->shape);
    } else if (in->shape.type == 11) {
      compute_f32(in->opcode, (float *)to, (const float *)x, (const float *)y, in->shape.size / 4);
    } else {
      compute_s32(in->opcode, (int32_t *)to, (const int32_t *)x, (const int32_t *)y, in->shape.size / 4);
    }
  }
  for (size_t i = 0; i < p->num_outputs; i++) memcpy(outputs[i], values[by_id(p, p->output_ids[i]) - p->instructions], p->outputs[i].size);
  for (size_t i = 0; i < p->num_instructions; i++) free(values[i]);
  free(values);
}
