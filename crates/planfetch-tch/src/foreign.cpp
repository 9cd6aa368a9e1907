// Lends memory of others to libtorch. Exceptions do not leave this file.

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <cstdint>
#include <cstring>
#include <exception>
#include <utility>

namespace {

void tell(const char *what, char *message, size_t capacity) {
  std::strncpy(message, what, capacity - 1);
  message[capacity - 1] = '\0';
}

// Runs `make`, and tells of an exception in the place of what it returns.
template <typename Make> auto guarded(char *message, size_t capacity, Make make) -> decltype(make()) {
  try {
    return make();
  } catch (const std::exception &error) {
    tell(error.what(), message, capacity);
  } catch (...) {
    tell("an unknown exception", message, capacity);
  }
  return nullptr;
}

c10::Device cuda(int64_t index) { return c10::Device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(index)); }

// A tensor that a copy on another stream is filling.
struct Upload {
  at::Tensor tensor;
  c10::Event copied;
};

} // namespace

extern "C" {

// A tensor over `data`, which stays valid until `release(owner)` is called: once, when the last tensor that shares the
// memory is gone, or before this function returns a null pointer.
void *planfetch_tch_lend(void *data, const int64_t *sizes, const int64_t *strides, size_t dims, int kind, void *owner,
                         void (*release)(void *), char *message, size_t capacity) {
  return guarded(message, capacity, [&]() -> void * {
    // The owner is handed over first: where there is no memory for what is returned, the tensor releases it.
    at::Tensor tensor = at::for_blob(data, at::IntArrayRef(sizes, dims))
                            .strides(at::IntArrayRef(strides, dims))
                            .context(owner, release)
                            .options(at::TensorOptions().device(at::kCPU).dtype(at::ScalarType(kind)))
                            .make_tensor();
    return new at::Tensor(std::move(tensor));
  });
}

// A stream of a CUDA device for copies. It is of libtorch's pool, which lives as long as the process.
void *planfetch_tch_stream(int64_t device, char *message, size_t capacity) {
  return guarded(message, capacity, [&]() -> void * {
    const c10::impl::VirtualGuardImpl guard(c10::DeviceType::CUDA);
    return new c10::Stream(guard.getStreamFromGlobalPool(cuda(device)));
  });
}

void planfetch_tch_stream_free(void *stream) { delete static_cast<c10::Stream *>(stream); }

// Begins to copy a tensor of the host to the stream's device, on the stream, behind nothing that the device computes.
void *planfetch_tch_upload(void *tensor, void *stream, char *message, size_t capacity) {
  return guarded(message, capacity, [&]() -> void * {
    const c10::Stream &copies = *static_cast<c10::Stream *>(stream);
    // The memory is of this stream too, so it is not some that a computation still reads.
    const c10::StreamGuard guard(copies);
    at::Tensor uploaded = static_cast<at::Tensor *>(tensor)->to(copies.device(), /*non_blocking=*/true);
    c10::Event copied(copies.device_type());
    copied.record(copies);
    return new Upload{std::move(uploaded), std::move(copied)};
  });
}

// The tensor of an upload, for the stream that is this thread's now: what is computed on it waits for the copy, and its
// memory is used again only behind that. The upload is not usable after it.
void *planfetch_tch_uploaded(void *upload, char *message, size_t capacity) {
  return guarded(message, capacity, [&]() -> void * {
    Upload &done = *static_cast<Upload *>(upload);
    const c10::impl::VirtualGuardImpl guard(done.tensor.device().type());
    const c10::Stream current = guard.getStream(done.tensor.device());
    done.copied.block(current);
    done.tensor.record_stream(current);
    return new at::Tensor(std::move(done.tensor));
  });
}

void planfetch_tch_upload_free(void *upload) { delete static_cast<Upload *>(upload); }
}
