// Transfers between host and device and buffers that are not made by an upload or a run. Part of pjrt_abi.h, which includes it.
#ifndef XLA_GO_PJRT_ABI_TRANSFERS_H_
#define XLA_GO_PJRT_ABI_TRANSFERS_H_

typedef struct PJRT_Chunk {
  void *data;
  size_t size;
  void (*deleter)(void *data, void *deleter_arg);
  void *deleter_arg;
} PJRT_Chunk;
typedef struct PJRT_ShapeSpec { PJRT_HEAD; const int64_t *dims; size_t num_dims; int element_type; } PJRT_ShapeSpec;
typedef struct PJRT_Buffer_CopyRawToHostFuture_Callback_Args {
  size_t struct_size;
  void *callback_data;
  int error_code;
  const char *error_message;
  size_t error_message_size;
  void *dst;
} PJRT_Buffer_CopyRawToHostFuture_Callback_Args;
typedef struct PJRT_Buffer_DonateWithControlDependency_Callback_Args {
  size_t struct_size;
  void *callback_data;
  int error_code;
  const char *error_message;
  size_t error_message_size;
} PJRT_Buffer_DonateWithControlDependency_Callback_Args;
typedef struct PJRT_AsyncHostToDeviceTransferManager_AddMetadata_Args {
  PJRT_HEAD;
  PJRT_AsyncHostToDeviceTransferManager *transfer_manager;
  const PJRT_NamedValue *transfer_metadata;
  size_t num_metadata;
} PJRT_AsyncHostToDeviceTransferManager_AddMetadata_Args;
typedef struct PJRT_AsyncHostToDeviceTransferManager_BufferCount_Args {
  PJRT_HEAD;
  PJRT_AsyncHostToDeviceTransferManager *transfer_manager;
  size_t buffer_count;
} PJRT_AsyncHostToDeviceTransferManager_BufferCount_Args;
typedef struct PJRT_AsyncHostToDeviceTransferManager_BufferSize_Args {
  PJRT_HEAD;
  PJRT_AsyncHostToDeviceTransferManager *transfer_manager;
  int buffer_index;
  size_t buffer_size;
} PJRT_AsyncHostToDeviceTransferManager_BufferSize_Args;
typedef struct PJRT_AsyncHostToDeviceTransferManager_Destroy_Args {
  PJRT_HEAD;
  PJRT_AsyncHostToDeviceTransferManager *transfer_manager;
} PJRT_AsyncHostToDeviceTransferManager_Destroy_Args;
typedef struct PJRT_AsyncHostToDeviceTransferManager_Device_Args {
  PJRT_HEAD;
  PJRT_AsyncHostToDeviceTransferManager *transfer_manager;
  PJRT_Device *device_out;
} PJRT_AsyncHostToDeviceTransferManager_Device_Args;
typedef struct PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args {
  PJRT_HEAD;
  PJRT_AsyncHostToDeviceTransferManager *transfer_manager;
  int buffer_index;
  PJRT_Buffer *buffer_out;
} PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args;
typedef struct PJRT_AsyncHostToDeviceTransferManager_SetBufferError_Args {
  PJRT_HEAD;
  PJRT_AsyncHostToDeviceTransferManager *transfer_manager;
  int buffer_index;
  int error_code;
  const char *error_message;
  size_t error_message_size;
} PJRT_AsyncHostToDeviceTransferManager_SetBufferError_Args;
typedef struct PJRT_AsyncHostToDeviceTransferManager_TransferData_Args {
  PJRT_HEAD;
  PJRT_AsyncHostToDeviceTransferManager *transfer_manager;
  int buffer_index;
  const void *data;
  int64_t offset;
  int64_t transfer_size;
  bool is_last_transfer;
  PJRT_Event *done_with_h2d_transfer;
} PJRT_AsyncHostToDeviceTransferManager_TransferData_Args;
typedef struct PJRT_AsyncHostToDeviceTransferManager_TransferLiteral_Args {
  PJRT_HEAD;
  PJRT_AsyncHostToDeviceTransferManager *transfer_manager;
  int buffer_index;
  const void *data;
  const int64_t *shape_dims;
  size_t shape_num_dims;
  int shape_element_type;
  PJRT_Buffer_MemoryLayout *shape_layout;
  PJRT_Event *done_with_h2d_transfer;
} PJRT_AsyncHostToDeviceTransferManager_TransferLiteral_Args;
typedef struct PJRT_AsyncTrackingEvent_Destroy_Args {
  PJRT_HEAD;
  PJRT_AsyncTrackingEvent *event;
} PJRT_AsyncTrackingEvent_Destroy_Args;
typedef struct PJRT_Buffer_Bitcast_Args {
  PJRT_HEAD;
  PJRT_Buffer *buffer;
  int element_type;
  const int64_t *dims;
  size_t num_dims;
  PJRT_Buffer_MemoryLayout *device_layout;
  PJRT_Buffer *out_buffer;
} PJRT_Buffer_Bitcast_Args;
typedef struct PJRT_Buffer_CopyRawToHostFuture_Args {
  PJRT_HEAD;
  PJRT_Buffer *buffer;
  int64_t offset;
  int64_t transfer_size;
  PJRT_Event *event;
  void *callback_data;
  void (*future_ready_callback)(PJRT_Buffer_CopyRawToHostFuture_Callback_Args *args);
} PJRT_Buffer_CopyRawToHostFuture_Args;
typedef struct PJRT_Buffer_CopyRawToHost_Args {
  PJRT_HEAD;
  PJRT_Buffer *buffer;
  void *dst;
  int64_t offset;
  int64_t transfer_size;
  PJRT_Event *event;
} PJRT_Buffer_CopyRawToHost_Args;
typedef struct PJRT_Buffer_DonateWithControlDependency_Args {
  PJRT_HEAD;
  PJRT_Buffer *buffer;
  void *callback_data;
  void (*dependency_ready_callback)(PJRT_Buffer_DonateWithControlDependency_Callback_Args *args);
  PJRT_Buffer *out_buffer;
} PJRT_Buffer_DonateWithControlDependency_Args;
typedef struct PJRT_Buffer_DynamicDimensionIndices_Args {
  PJRT_HEAD;
  PJRT_Buffer *buffer;
  const size_t *dynamic_dim_indices;
  size_t num_dynamic_dims;
} PJRT_Buffer_DynamicDimensionIndices_Args;
typedef struct PJRT_Buffer_IsOnCpu_Args { PJRT_HEAD; PJRT_Buffer *buffer; bool is_on_cpu; } PJRT_Buffer_IsOnCpu_Args;
typedef struct PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args {
  PJRT_HEAD;
  PJRT_Buffer *buffer;
  void *device_memory_ptr;
} PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args;
typedef struct PJRT_Buffer_UnpaddedDimensions_Args {
  PJRT_HEAD;
  PJRT_Buffer *buffer;
  const int64_t *unpadded_dims;
  size_t num_dims;
} PJRT_Buffer_UnpaddedDimensions_Args;
typedef struct PJRT_Client_CreateAliasBuffer_Args {
  PJRT_HEAD;
  PJRT_Client *client;
  PJRT_Memory *memory;
  const int64_t *shape_dims;
  size_t shape_num_dims;
  int shape_element_type;
  PJRT_Buffer_MemoryLayout *shape_layout;
  PJRT_Buffer *alias_buffer;
  PJRT_FulfillAliasBufferCallback *fulfill_alias_buffer_cb;
} PJRT_Client_CreateAliasBuffer_Args;
typedef struct PJRT_Client_CreateBuffersForAsyncHostToDevice_Args {
  PJRT_HEAD;
  PJRT_Client *client;
  PJRT_ShapeSpec *shape_specs;
  size_t num_shape_specs;
  PJRT_Buffer_MemoryLayout **device_layouts;
  size_t num_device_layouts;
  PJRT_Memory *memory;
  PJRT_AsyncHostToDeviceTransferManager *transfer_manager;
} PJRT_Client_CreateBuffersForAsyncHostToDevice_Args;
typedef struct PJRT_Client_CreateErrorBuffer_Args {
  PJRT_HEAD;
  PJRT_Client *client;
  int error_code;
  const char *error_message;
  size_t error_message_size;
  const int64_t *shape_dims;
  size_t shape_num_dims;
  int shape_element_type;
  PJRT_Buffer_MemoryLayout *shape_layout;
  PJRT_Memory *memory;
  PJRT_Buffer *buffer;
  const PJRT_NamedValue *payload;
  size_t num_payload;
} PJRT_Client_CreateErrorBuffer_Args;
typedef struct PJRT_Client_CreateUninitializedBuffer_Args {
  PJRT_HEAD;
  PJRT_Client *client;
  const int64_t *shape_dims;
  size_t shape_num_dims;
  int shape_element_type;
  PJRT_Buffer_MemoryLayout *shape_layout;
  PJRT_Device *device;
  PJRT_Memory *memory;
  PJRT_Buffer *buffer;
} PJRT_Client_CreateUninitializedBuffer_Args;
typedef struct PJRT_Client_DmaMap_Args {
  PJRT_HEAD;
  PJRT_Client *client;
  void *data;
  size_t size;
} PJRT_Client_DmaMap_Args;
typedef struct PJRT_Client_DmaUnmap_Args { PJRT_HEAD; PJRT_Client *client; void *data; } PJRT_Client_DmaUnmap_Args;
typedef struct PJRT_Client_FulfillAliasBuffer_Args {
  PJRT_HEAD;
  PJRT_Client *client;
  PJRT_Buffer *buffer;
  int status_code;
  const char *error_message;
  size_t error_message_size;
  PJRT_FulfillAliasBufferCallback *fulfill_alias_buffer_cb;
} PJRT_Client_FulfillAliasBuffer_Args;
typedef struct PJRT_CopyToDeviceStream_AddChunk_Args {
  PJRT_HEAD;
  PJRT_CopyToDeviceStream *stream;
  PJRT_Chunk *chunk;
  PJRT_Event *transfer_complete;
} PJRT_CopyToDeviceStream_AddChunk_Args;
typedef struct PJRT_CopyToDeviceStream_CurrentBytes_Args {
  PJRT_HEAD;
  PJRT_CopyToDeviceStream *stream;
  int64_t current_bytes;
} PJRT_CopyToDeviceStream_CurrentBytes_Args;
typedef struct PJRT_CopyToDeviceStream_Destroy_Args {
  PJRT_HEAD;
  PJRT_CopyToDeviceStream *stream;
} PJRT_CopyToDeviceStream_Destroy_Args;
typedef struct PJRT_CopyToDeviceStream_GranuleSize_Args {
  PJRT_HEAD;
  PJRT_CopyToDeviceStream *stream;
  int64_t granule_size_in_bytes;
} PJRT_CopyToDeviceStream_GranuleSize_Args;
typedef struct PJRT_CopyToDeviceStream_TotalBytes_Args {
  PJRT_HEAD;
  PJRT_CopyToDeviceStream *stream;
  int64_t total_bytes;
} PJRT_CopyToDeviceStream_TotalBytes_Args;
typedef struct PJRT_Device_CreateAsyncTrackingEvent_Args {
  PJRT_HEAD;
  PJRT_Device *device;
  const char *description;
  size_t description_size;
  PJRT_AsyncTrackingEvent *event;
} PJRT_Device_CreateAsyncTrackingEvent_Args;
typedef struct PJRT_Event_Create_Args { PJRT_HEAD; PJRT_Event *event; } PJRT_Event_Create_Args;
typedef struct PJRT_Event_Set_Args {
  PJRT_HEAD;
  PJRT_Event *event;
  int error_code;
  const char *error_message;
  size_t error_message_size;
} PJRT_Event_Set_Args;
typedef struct PJRT_RecvCallbackInfo {
  int64_t channel_id;
  void *user_arg;
  void (*recv_callback)(PJRT_CopyToDeviceStream *stream, void *user_arg);
} PJRT_RecvCallbackInfo;
typedef struct PJRT_SendCallbackInfo {
  int64_t channel_id;
  void *user_arg;
  PJRT_Error *(*send_callback)(PJRT_Chunk *chunk, PJRT_CallbackError *callback_error, size_t total_size_in_bytes, bool done,
                               void *user_arg);
} PJRT_SendCallbackInfo;
typedef struct PJRT_HloOutputCallbackInfo {
  void *user_arg;
  void *callback;
  int64_t callback_id;
  size_t num_operands;
} PJRT_HloOutputCallbackInfo;

#endif
