package pjrt

// #include "extensions.h"
import "C"

import (
	"runtime"
	"unsafe"

	"xla_go/gosrc/shape"
	"xla_go/gosrc/status"
)

// TransferManager fills buffers from host memory piece by piece, while others already use them as
// arguments: the C interface's asynchronous host-to-device transfer manager.
type TransferManager struct {
	object
	client *Client
}

// NewTransferManager makes uninitialized buffers of the given shapes in a memory and the manager
// that fills them. Not blocking.
func (c *Client) NewTransferManager(shapes []shape.Shape, memory *Memory) (*TransferManager, error) {
	if len(shapes) == 0 || memory == nil {
		return nil, status.Errorf(status.InvalidArgument, "NewTransferManager(): expected at least one shape and a memory, got %d shapes and memory %v", len(shapes), memory)
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	specs := make([]C.PJRT_ShapeSpec, len(shapes))
	for i, s := range shapes {
		specs[i] = C.PJRT_ShapeSpec{struct_size: C.S_PJRT_ShapeSpec, dims: pinInts(s.Dims, &pinner), num_dims: C.size_t(len(s.Dims)), element_type: C.int(s.Dtype.PJRT())}
	}
	pinner.Pin(&specs[0])
	args := C.PJRT_Client_CreateBuffersForAsyncHostToDevice_Args{struct_size: C.S_PJRT_Client_CreateBuffersForAsyncHostToDevice_Args,
		client: c.handle, shape_specs: &specs[0], num_shape_specs: C.size_t(len(specs)), memory: memory.handle}
	if err := c.plugin.call(C.FN_Client_CreateBuffersForAsyncHostToDevice, unsafe.Pointer(&args)); err != nil {
		return nil, err
	}
	m := &TransferManager{client: c}
	p := c.plugin
	c.others.Add(1)
	hold(m, &m.object, p, unsafe.Pointer(args.transfer_manager), func(h unsafe.Pointer) error {
		defer c.others.Add(-1)
		args := C.PJRT_AsyncHostToDeviceTransferManager_Destroy_Args{struct_size: C.S_PJRT_AsyncHostToDeviceTransferManager_Destroy_Args,
			transfer_manager: (*C.PJRT_AsyncHostToDeviceTransferManager)(h)}
		return p.call(C.FN_AsyncHostToDeviceTransferManager_Destroy, unsafe.Pointer(&args))
	})
	return m, nil
}

func (m *TransferManager) manager() (*C.PJRT_AsyncHostToDeviceTransferManager, error) {
	h, err := m.get()
	return (*C.PJRT_AsyncHostToDeviceTransferManager)(h), err
}

// TransferData queues a copy of data to the byte offset of buffer index, as it lies in device
// memory. last says that the buffer is complete with it. The data is pinned until done, which is
// called once, from any thread, and must not block. If TransferData itself fails done is not called.
func (m *TransferManager) TransferData(index int, data []byte, offset int64, last bool, done func(error)) error {
	h, err := m.manager()
	if err != nil {
		return err
	}
	pinner := new(runtime.Pinner)
	args := C.PJRT_AsyncHostToDeviceTransferManager_TransferData_Args{struct_size: C.S_PJRT_AsyncHostToDeviceTransferManager_TransferData_Args,
		transfer_manager: h, buffer_index: C.int(index), data: pinData(data, pinner), offset: C.int64_t(offset), transfer_size: C.int64_t(len(data)), is_last_transfer: C.bool(last)}
	err = m.plugin.call(C.FN_AsyncHostToDeviceTransferManager_TransferData, unsafe.Pointer(&args))
	runtime.KeepAlive(m)
	return m.plugin.started(err, args.done_with_h2d_transfer, pinner, done)
}

// TransferLiteral queues a copy of a whole dense row-major array into buffer index; done as in TransferData.
func (m *TransferManager) TransferLiteral(index int, data []byte, s shape.Shape, done func(error)) error {
	h, err := m.manager()
	if err != nil {
		return err
	}
	pinner := new(runtime.Pinner)
	args := C.PJRT_AsyncHostToDeviceTransferManager_TransferLiteral_Args{struct_size: C.S_PJRT_AsyncHostToDeviceTransferManager_TransferLiteral_Args,
		transfer_manager: h, buffer_index: C.int(index), data: pinData(data, pinner), shape_dims: pinInts(s.Dims, pinner), shape_num_dims: C.size_t(len(s.Dims)),
		shape_element_type: C.int(s.Dtype.PJRT()), shape_layout: rowMajorLayout(len(s.Dims), pinner)}
	err = m.plugin.call(C.FN_AsyncHostToDeviceTransferManager_TransferLiteral, unsafe.Pointer(&args))
	runtime.KeepAlive(m)
	return m.plugin.started(err, args.done_with_h2d_transfer, pinner, done)
}

// started ends a call that started asynchronous work: pinned memory is let go when the work is done.
func (p *Plugin) started(err error, event *C.PJRT_Event, pinner *runtime.Pinner, done func(error)) error {
	if err != nil {
		pinner.Unpin()
		return err
	}
	p.whenDone(event, func(err error) { pinner.Unpin(); done(err) })
	return nil
}

// Retrieve gives buffer index, which may still be in the filling; the caller destroys it. Once per buffer.
func (m *TransferManager) Retrieve(index int) (*Buffer, error) {
	h, err := m.manager()
	if err != nil {
		return nil, err
	}
	args := C.PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args{struct_size: C.S_PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args,
		transfer_manager: h, buffer_index: C.int(index)}
	err = m.plugin.call(C.FN_AsyncHostToDeviceTransferManager_RetrieveBuffer, unsafe.Pointer(&args))
	runtime.KeepAlive(m)
	if err != nil {
		return nil, err
	}
	return m.client.adoptOne(args.buffer_out), nil
}

// Device gives the device that the buffers lie on.
func (m *TransferManager) Device() (*Device, error) {
	h, err := m.manager()
	if err != nil {
		return nil, err
	}
	args := C.PJRT_AsyncHostToDeviceTransferManager_Device_Args{struct_size: C.S_PJRT_AsyncHostToDeviceTransferManager_Device_Args, transfer_manager: h}
	err = m.plugin.call(C.FN_AsyncHostToDeviceTransferManager_Device, unsafe.Pointer(&args))
	runtime.KeepAlive(m)
	if err != nil {
		return nil, err
	}
	return m.client.device(args.device_out)
}

// BufferCount gives the number of buffers.
func (m *TransferManager) BufferCount() (int, error) {
	h, err := m.manager()
	if err != nil {
		return 0, err
	}
	args := C.PJRT_AsyncHostToDeviceTransferManager_BufferCount_Args{struct_size: C.S_PJRT_AsyncHostToDeviceTransferManager_BufferCount_Args, transfer_manager: h}
	err = m.plugin.call(C.FN_AsyncHostToDeviceTransferManager_BufferCount, unsafe.Pointer(&args))
	runtime.KeepAlive(m)
	return int(args.buffer_count), err
}

// BufferSize gives the bytes that buffer index takes on the device.
func (m *TransferManager) BufferSize(index int) (int64, error) {
	h, err := m.manager()
	if err != nil {
		return 0, err
	}
	args := C.PJRT_AsyncHostToDeviceTransferManager_BufferSize_Args{struct_size: C.S_PJRT_AsyncHostToDeviceTransferManager_BufferSize_Args, transfer_manager: h, buffer_index: C.int(index)}
	err = m.plugin.call(C.FN_AsyncHostToDeviceTransferManager_BufferSize, unsafe.Pointer(&args))
	runtime.KeepAlive(m)
	return int64(args.buffer_size), err
}

// SetBufferError makes buffer index fail for everybody who waits for it.
func (m *TransferManager) SetBufferError(index int, failure error) error {
	h, err := m.manager()
	if err != nil {
		return err
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	message := status.MessageOf(failure)
	args := C.PJRT_AsyncHostToDeviceTransferManager_SetBufferError_Args{struct_size: C.S_PJRT_AsyncHostToDeviceTransferManager_SetBufferError_Args,
		transfer_manager: h, buffer_index: C.int(index), error_code: C.int(status.CodeOf(failure)), error_message: pinString(message, &pinner), error_message_size: C.size_t(len(message))}
	err = m.plugin.call(C.FN_AsyncHostToDeviceTransferManager_SetBufferError, unsafe.Pointer(&args))
	runtime.KeepAlive(m)
	return err
}

// AddMetadata tells the plugin about the transfers: names and values as in NewClient's options.
func (m *TransferManager) AddMetadata(metadata map[string]any) error {
	h, err := m.manager()
	if err != nil {
		return err
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	values, err := encodeValues(metadata, &pinner)
	if err != nil {
		return err
	}
	args := C.PJRT_AsyncHostToDeviceTransferManager_AddMetadata_Args{struct_size: C.S_PJRT_AsyncHostToDeviceTransferManager_AddMetadata_Args, transfer_manager: h}
	if len(values) > 0 {
		args.transfer_metadata, args.num_metadata = &values[0], C.size_t(len(values))
	}
	err = m.plugin.call(C.FN_AsyncHostToDeviceTransferManager_AddMetadata, unsafe.Pointer(&args))
	runtime.KeepAlive(m)
	return err
}
