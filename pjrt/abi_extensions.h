// Extensions: structs that a plugin's function table links to, each with a type, its own size and functions.
// Part of pjrt_abi.h, which includes it.
#ifndef XLA_GO_PJRT_ABI_EXTENSIONS_H_
#define XLA_GO_PJRT_ABI_EXTENSIONS_H_

#include "abi_extension_functions.h"

typedef struct PJRT_Extension_Base {
  size_t struct_size;
  int type;
  struct PJRT_Extension_Base *next;
} PJRT_Extension_Base;

// XF_custom_call and so on.
enum {
#define PJRT_POSITION(owner, type, position, function) XF_##function,
  PJRT_EXTENSION_FUNCTIONS(PJRT_POSITION)
#undef PJRT_POSITION
  XF_COUNT
};

enum { EXTENSION_CUSTOM_CALL = 0, EXTENSION_PROFILER = 1, EXTENSION_COUNT = 25 };

typedef struct PJRT_Layouts_MemoryLayout PJRT_Layouts_MemoryLayout;
typedef struct PJRT_Layouts_SerializedLayout PJRT_Layouts_SerializedLayout;
typedef struct PJRT_MemoryDescription PJRT_MemoryDescription;
typedef struct PJRT_RawBuffer PJRT_RawBuffer;
typedef struct PLUGIN_Profiler PLUGIN_Profiler;
typedef struct PLUGIN_Profiler_Error PLUGIN_Profiler_Error;

typedef struct PJRT_DeviceDescription_MemoryDescriptions_Args {
  PJRT_HEAD;
  PJRT_DeviceDescription *device_description;
  const PJRT_MemoryDescription *const *memory_descriptions;
  size_t num_memory_descriptions;
  size_t default_memory_index;
} PJRT_DeviceDescription_MemoryDescriptions_Args;
typedef struct PJRT_FFI_Register_Handler_Args {
  size_t struct_size;
  const char *target_name;
  size_t target_name_size;
  void *handler;
  const char *platform_name;
  size_t platform_name_size;
  int traits;
} PJRT_FFI_Register_Handler_Args;
typedef struct PJRT_FFI_Type_Info { void (*deleter)(void *object); void *serialize; void *deserialize; } PJRT_FFI_Type_Info;
typedef struct PJRT_FFI_Type_Register_Args {
  PJRT_HEAD;
  const char *type_name;
  size_t type_name_size;
  int64_t type_id;
  PJRT_FFI_Type_Info *type_info;
} PJRT_FFI_Type_Register_Args;
typedef struct PJRT_FFI_UserData { int64_t type_id; void *data; } PJRT_FFI_UserData;
typedef struct PJRT_FFI_UserData_Add_Args {
  PJRT_HEAD;
  PJRT_ExecuteContext *context;
  PJRT_FFI_UserData user_data;
} PJRT_FFI_UserData_Add_Args;
typedef struct PJRT_Get_Stream_For_External_Ready_Events_Args {
  size_t struct_size;
  PJRT_Device *device;
  intptr_t stream;
} PJRT_Get_Stream_For_External_Ready_Events_Args;
typedef struct PJRT_Gpu_Register_Custom_Call_Args {
  size_t struct_size;
  const char *function_name;
  size_t function_name_size;
  int api_version;
  void *handler_instantiate;
  void *handler_prepare;
  void *handler_initialize;
  void *handler_execute;
  uint32_t traits;
} PJRT_Gpu_Register_Custom_Call_Args;
typedef struct PJRT_Layouts_MemoryLayout_Destroy_Args {
  PJRT_HEAD;
  PJRT_Layouts_MemoryLayout *layout;
} PJRT_Layouts_MemoryLayout_Destroy_Args;
typedef struct PJRT_Layouts_MemoryLayout_Serialize_Args {
  PJRT_HEAD;
  PJRT_Layouts_MemoryLayout *layout;
  const char *serialized_bytes;
  size_t serialized_bytes_size;
  PJRT_Layouts_SerializedLayout *serialized_layout;
  void (*serialized_layout_deleter)(PJRT_Layouts_SerializedLayout *serialized_layout);
} PJRT_Layouts_MemoryLayout_Serialize_Args;
typedef struct PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args {
  PJRT_HEAD;
  PJRT_Buffer *buffer;
  PJRT_Layouts_MemoryLayout *layout;
} PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args;
typedef struct PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args {
  PJRT_HEAD;
  PJRT_Client *client;
  int type;
  const int64_t *dims;
  size_t num_dims;
  PJRT_Layouts_MemoryLayout *layout;
} PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args;
typedef struct PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args {
  PJRT_HEAD;
  PJRT_Executable *executable;
  size_t num_outputs;
  PJRT_Layouts_MemoryLayout **layouts;
} PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args;
typedef struct PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args {
  PJRT_HEAD;
  PJRT_Executable *executable;
  size_t num_parameters;
  PJRT_Layouts_MemoryLayout **layouts;
} PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args;
typedef struct PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args {
  PJRT_HEAD;
  PJRT_TopologyDescription *topology_description;
  int type;
  const int64_t *dims;
  size_t num_dims;
  PJRT_Layouts_MemoryLayout *layout;
} PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args;
typedef struct PJRT_MemoryDescription_Kind_Args {
  PJRT_HEAD;
  const PJRT_MemoryDescription *memory_description;
  const char *kind;
  size_t kind_size;
  int kind_id;
} PJRT_MemoryDescription_Kind_Args;
typedef struct PJRT_RawBuffer_CopyRawDeviceToHost_Args {
  PJRT_HEAD;
  PJRT_RawBuffer *buffer;
  void *dst;
  int64_t offset;
  int64_t transfer_size;
  PJRT_Event *event;
} PJRT_RawBuffer_CopyRawDeviceToHost_Args;
typedef struct PJRT_RawBuffer_CopyRawHostToDevice_Args {
  PJRT_HEAD;
  PJRT_RawBuffer *buffer;
  const void *src;
  int64_t offset;
  int64_t transfer_size;
  PJRT_Event *event;
} PJRT_RawBuffer_CopyRawHostToDevice_Args;
typedef struct PJRT_RawBuffer_CreateRawAliasOfBuffer_Args {
  PJRT_HEAD;
  PJRT_Buffer *buffer;
  PJRT_RawBuffer *raw_buffer;
} PJRT_RawBuffer_CreateRawAliasOfBuffer_Args;
typedef struct PJRT_RawBuffer_Destroy_Args { PJRT_HEAD; PJRT_RawBuffer *buffer; } PJRT_RawBuffer_Destroy_Args;
typedef struct PJRT_RawBuffer_GetHostPointer_Args {
  PJRT_HEAD;
  PJRT_RawBuffer *buffer;
  void *host_pointer;
} PJRT_RawBuffer_GetHostPointer_Args;
typedef struct PJRT_RawBuffer_GetMemorySpace_Args {
  PJRT_HEAD;
  PJRT_RawBuffer *buffer;
  PJRT_Memory *memory_space;
} PJRT_RawBuffer_GetMemorySpace_Args;
typedef struct PJRT_RawBuffer_GetOnDeviceSizeInBytes_Args {
  PJRT_HEAD;
  PJRT_RawBuffer *buffer;
  size_t on_device_size_in_bytes;
} PJRT_RawBuffer_GetOnDeviceSizeInBytes_Args;
typedef struct PJRT_Shardings_PJRT_Executable_OutputShardings_Args {
  PJRT_HEAD;
  PJRT_Executable *executable;
  size_t num_outputs;
  const char *const *shardings;
  const size_t *sharding_sizes;
} PJRT_Shardings_PJRT_Executable_OutputShardings_Args;
typedef struct PJRT_Shardings_PJRT_Executable_ParameterShardings_Args {
  PJRT_HEAD;
  PJRT_Executable *executable;
  size_t num_parameters;
  const char *const *shardings;
  const size_t *sharding_sizes;
} PJRT_Shardings_PJRT_Executable_ParameterShardings_Args;
typedef struct PJRT_Triton_Compile_Args {
  size_t struct_size;
  const char *module;
  size_t module_size;
  const char *arch_name;
  size_t arch_name_size;
  int num_warps;
  int num_ctas;
  int num_stages;
  const char *out_asm;
  size_t out_asm_size;
  int64_t out_smem_bytes;
  const char *out_path;
  size_t out_path_size;
} PJRT_Triton_Compile_Args;
typedef struct PJRT_Wait_Until_Buffer_Ready_On_Stream_Args {
  size_t struct_size;
  intptr_t stream;
  PJRT_Buffer *buffer;
} PJRT_Wait_Until_Buffer_Ready_On_Stream_Args;

// ---- cross-host transfers ----
// The older way of sending between processes: the receiver gives a descriptor for each buffer, which the
// sender has to get by itself.
typedef void (*PJRT_Transfers_CrossHostOnCanceledCallback)(PJRT_Error *error, void *user_arg);
typedef void (*PJRT_Transfers_CrossHostSendCancelNotifier)(const char *descriptor, size_t descriptor_size, int reason,
                                                           const char *message, size_t message_size,
                                                           PJRT_Transfers_CrossHostOnCanceledCallback on_canceled,
                                                           void *on_canceled_user_arg, void *user_arg);
typedef struct PJRT_Transfers_CrossHostRecvNotifierInfo {
  void *user_arg;
  void (*notifier)(PJRT_Error *error, const char **descriptors, size_t *descriptor_sizes, size_t num_descriptors,
                   void *user_arg, PJRT_Transfers_CrossHostSendCancelNotifier cancel, void *cancel_user_arg);
} PJRT_Transfers_CrossHostRecvNotifierInfo;
typedef struct PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers_Args {
  PJRT_HEAD;
  PJRT_Client *client;
  size_t num_shapes;
  size_t *shape_num_dims;
  const int64_t **num_dims;
  int *element_types;
  PJRT_Buffer_MemoryLayout **layouts;
  PJRT_Device *device;
  PJRT_Transfers_CrossHostRecvNotifierInfo notifier;
  PJRT_Buffer **buffers;
  size_t num_buffers;
} PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers_Args;
typedef struct PJRT_Transfers_CrossHostRemoteSendCallbackInfo {
  void *user_arg;
  void (*on_done)(PJRT_Error *error, bool sends_were_enqueued, void *user_arg);
} PJRT_Transfers_CrossHostRemoteSendCallbackInfo;
typedef struct PJRT_Transfers_PJRT_Buffer_CopyToRemoteDevice_Args {
  PJRT_HEAD;
  PJRT_Buffer *buffer;
  PJRT_Event *event;  // NULL where the descriptor is there already
  char **serialized_descriptor;
  size_t *serialized_descriptor_size;
  PJRT_Transfers_CrossHostRemoteSendCallbackInfo on_done;
  void (*descriptor_destructor)(char **descriptor, size_t *descriptor_size);
} PJRT_Transfers_PJRT_Buffer_CopyToRemoteDevice_Args;
typedef struct PJRT_Transfers_PJRT_Client_CrossHostSendBuffers_Args {
  PJRT_HEAD;
  PJRT_Client *client;
  size_t num_buffers;
  PJRT_Buffer **buffers;
  const int64_t *dst_global_device_ids;
  const int64_t *transfer_keys;
  PJRT_Event **send_events;
} PJRT_Transfers_PJRT_Client_CrossHostSendBuffers_Args;
typedef struct PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers_Args {
  PJRT_HEAD;
  PJRT_Client *client;
  size_t num_shapes;
  size_t *shape_num_dims;
  const int64_t **num_dims;
  int *element_types;
  PJRT_Buffer_MemoryLayout **layouts;
  PJRT_Device *device;
  const int64_t *src_global_device_ids;
  const int64_t *transfer_keys;
  PJRT_Buffer **buffers;
} PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers_Args;

// ---- profiler: a function table of its own, with its own errors ----
typedef struct PLUGIN_Profiler_Api {
  size_t struct_size;
  void *priv;
  void *error_destroy;
  void *error_message;
  void *error_get_code;
  void *create;
  void *destroy;
  void *start;
  void *stop;
  void *collect_data;
  void *consume;
  void *consume_result_destroy;
  void *serialize;
} PLUGIN_Profiler_Api;
typedef struct PLUGIN_Profiler_CollectData_Args {
  size_t struct_size;
  PLUGIN_Profiler *profiler;
  uint8_t *buffer;
  size_t buffer_size_in_bytes;
} PLUGIN_Profiler_CollectData_Args;
typedef struct PLUGIN_Profiler_ConsumeResult_Destroy_Args {
  size_t struct_size;
  void *consume_result;
} PLUGIN_Profiler_ConsumeResult_Destroy_Args;
typedef struct PLUGIN_Profiler_Consume_Args {
  size_t struct_size;
  PLUGIN_Profiler *profiler;
  void *result;
} PLUGIN_Profiler_Consume_Args;
typedef struct PLUGIN_Profiler_Create_Args {
  size_t struct_size;
  const char *options;
  size_t options_size;
  PLUGIN_Profiler *profiler;
} PLUGIN_Profiler_Create_Args;
typedef struct PLUGIN_Profiler_Destroy_Args { size_t struct_size; PLUGIN_Profiler *profiler; } PLUGIN_Profiler_Destroy_Args;
typedef struct PLUGIN_Profiler_Error_Destroy_Args {
  size_t struct_size;
  void *priv;
  PLUGIN_Profiler_Error *error;
} PLUGIN_Profiler_Error_Destroy_Args;
typedef struct PLUGIN_Profiler_Error_GetCode_Args {
  size_t struct_size;
  void *priv;
  PLUGIN_Profiler_Error *error;
  int code;
} PLUGIN_Profiler_Error_GetCode_Args;
typedef struct PLUGIN_Profiler_Error_Message_Args {
  size_t struct_size;
  void *priv;
  PLUGIN_Profiler_Error *error;
  const char *message;
  size_t message_size;
} PLUGIN_Profiler_Error_Message_Args;
typedef struct PLUGIN_Profiler_Serialize_Args {
  size_t struct_size;
  PLUGIN_Profiler *profiler;
  void *consume_result;
  const char *serialized_bytes;
  size_t serialized_size;
} PLUGIN_Profiler_Serialize_Args;
typedef struct PLUGIN_Profiler_Start_Args { size_t struct_size; PLUGIN_Profiler *profiler; } PLUGIN_Profiler_Start_Args;
typedef struct PLUGIN_Profiler_Stop_Args { size_t struct_size; PLUGIN_Profiler *profiler; } PLUGIN_Profiler_Stop_Args;
typedef struct PJRT_Profiler_Extension {
  PJRT_Extension_Base base;
  PLUGIN_Profiler_Api *profiler_api;
  int64_t traceme_context_id;
} PJRT_Profiler_Extension;

#endif
