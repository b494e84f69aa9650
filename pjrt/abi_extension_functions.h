// The functions of extensions.
#ifndef XLA_GO_PJRT_ABI_EXTENSION_FUNCTIONS_H_
#define XLA_GO_PJRT_ABI_EXTENSION_FUNCTIONS_H_

// Every extension whose functions are called here: F(struct, type, position, function). Positions
// count pointers behind PJRT_Extension_Base.
#define PJRT_EXTENSION_FUNCTIONS(F) \
  F(PJRT_Gpu_Custom_Call, 0, 0, custom_call) \
  F(PJRT_Stream_Extension, 3, 0, get_stream) \
  F(PJRT_Stream_Extension, 3, 1, wait_stream) \
  F(PJRT_Layouts_Extension, 4, 0, PJRT_Layouts_MemoryLayout_Destroy) \
  F(PJRT_Layouts_Extension, 4, 1, PJRT_Layouts_MemoryLayout_Serialize) \
  F(PJRT_Layouts_Extension, 4, 2, PJRT_Layouts_PJRT_Client_GetDefaultLayout) \
  F(PJRT_Layouts_Extension, 4, 3, PJRT_Layouts_PJRT_Buffer_MemoryLayout) \
  F(PJRT_Layouts_Extension, 4, 4, PJRT_Layouts_PJRT_Topology_GetDefaultLayout) \
  F(PJRT_Layouts_Extension, 4, 5, PJRT_Layouts_PJRT_Executable_GetOutputLayouts) \
  F(PJRT_Layouts_Extension, 4, 6, PJRT_Layouts_PJRT_Executable_GetParameterLayouts) \
  F(PJRT_FFI_Extension, 5, 0, type_register) \
  F(PJRT_FFI_Extension, 5, 1, user_data_add) \
  F(PJRT_FFI_Extension, 5, 2, register_handler) \
  F(PJRT_MemoryDescriptions_Extension, 6, 0, PJRT_DeviceDescription_MemoryDescriptions) \
  F(PJRT_MemoryDescriptions_Extension, 6, 1, PJRT_MemoryDescription_Kind) \
  F(PJRT_Triton_Extension, 7, 0, compile) \
  F(PJRT_RawBuffer_Extension, 8, 0, PJRT_RawBuffer_CreateRawAliasOfBuffer) \
  F(PJRT_RawBuffer_Extension, 8, 1, PJRT_RawBuffer_Destroy) \
  F(PJRT_RawBuffer_Extension, 8, 2, PJRT_RawBuffer_GetOnDeviceSizeInBytes) \
  F(PJRT_RawBuffer_Extension, 8, 3, PJRT_RawBuffer_GetMemorySpace) \
  F(PJRT_RawBuffer_Extension, 8, 4, PJRT_RawBuffer_CopyRawHostToDevice) \
  F(PJRT_RawBuffer_Extension, 8, 5, PJRT_RawBuffer_CopyRawDeviceToHost) \
  F(PJRT_RawBuffer_Extension, 8, 6, PJRT_RawBuffer_GetHostPointer) \
  F(PJRT_Shardings_Extension, 19, 0, PJRT_Shardings_PJRT_Executable_ParameterShardings) \
  F(PJRT_Shardings_Extension, 19, 1, PJRT_Shardings_PJRT_Executable_OutputShardings) \
  F(PJRT_CrossHostTransfers_Extension, 12, 0, PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers) \
  F(PJRT_CrossHostTransfers_Extension, 12, 1, PJRT_Transfers_PJRT_Buffer_CopyToRemoteDevice) \
  F(PJRT_CrossHostTransfers_Extension, 12, 2, PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers) \
  F(PJRT_CrossHostTransfers_Extension, 12, 3, PJRT_Transfers_PJRT_Client_CrossHostSendBuffers)

#endif
