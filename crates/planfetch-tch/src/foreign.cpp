// Lends memory of others to libtorch. Exceptions do not leave this file.

#include <ATen/ATen.h>
#include <cstdint>
#include <cstring>
#include <exception>
#include <utility>

namespace {

void tell(const char *what, char *message, size_t capacity) {
  std::strncpy(message, what, capacity - 1);
  message[capacity - 1] = '\0';
}

} // namespace

extern "C" {

// A tensor over `data`, which stays valid until `release(owner)` is called: once, when the last tensor that shares the
// memory is gone, or before this function returns a null pointer.
void *planfetch_tch_lend(void *data, const int64_t *sizes, const int64_t *strides, size_t dims, int kind, void *owner,
                         void (*release)(void *), char *message, size_t capacity) {
  try {
    // The owner is handed over first: where there is no memory for what is returned, the tensor releases it.
    at::Tensor tensor = at::for_blob(data, at::IntArrayRef(sizes, dims))
                            .strides(at::IntArrayRef(strides, dims))
                            .context(owner, release)
                            .options(at::TensorOptions().device(at::kCPU).dtype(at::ScalarType(kind)))
                            .make_tensor();
    return new at::Tensor(std::move(tensor));
  } catch (const std::exception &error) {
    tell(error.what(), message, capacity);
  } catch (...) {
    tell("an unknown exception", message, capacity);
  }
  return nullptr;
}
}
