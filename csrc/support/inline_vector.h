// A vector whose first few elements need no allocation, for short lists that are made and copied all the time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <type_traits>
#include <utility>

namespace appy {

/// What it has of std::vector does the same. Its elements are values that nothing has to be done for in the end.
template <class T, uint32_t N>
class InlineVector {
  static_assert(std::is_trivially_copy_constructible_v<T> && std::is_trivially_destructible_v<T>);

 public:
  using value_type = T;

  InlineVector() = default;
  InlineVector(size_t count, T value) { resize(count, value); }
  InlineVector(std::initializer_list<T> values) {
    for (const T& value : values) push_back(value);
  }
  InlineVector(const InlineVector& other) { assign(other); }
  InlineVector(InlineVector&& other) noexcept { take(other); }
  InlineVector& operator=(const InlineVector& other) {
    if (this != &other) assign(other);
    return *this;
  }
  InlineVector& operator=(InlineVector&& other) noexcept {
    if (this != &other) take(other);
    return *this;
  }
  ~InlineVector() { release(); }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T& back() { return data_[size_ - 1]; }
  const T& back() const { return data_[size_ - 1]; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  void push_back(T value) { insert(end(), value); }
  void clear() { size_ = 0; }
  void resize(size_t count, T value = T()) {
    if (count > capacity_) grow(static_cast<uint32_t>(count));
    if (count > size_) std::uninitialized_fill(data_ + size_, data_ + count, value);
    size_ = static_cast<uint32_t>(count);
  }

  T* insert(T* at, T value) {
    const auto position = static_cast<size_t>(at - data_);
    if (size_ == capacity_) grow(2 * capacity_);
    if (position == size_) {
      std::construct_at(data_ + size_, value);
    } else {
      std::construct_at(data_ + size_, data_[size_ - 1]);
      std::copy_backward(data_ + position, data_ + size_ - 1, data_ + size_);
      data_[position] = value;
    }
    ++size_;
    return data_ + position;
  }
  T* erase(T* at) {
    std::copy(at + 1, end(), at);
    --size_;
    return at;
  }
  friend bool operator==(const InlineVector& a, const InlineVector& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }
  friend bool operator<(const InlineVector& a, const InlineVector& b) {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  T* inside() { return reinterpret_cast<T*>(room_); }

  void release() {
    if (data_ != inside()) std::allocator<T>().deallocate(data_, capacity_);
    data_ = inside();
    capacity_ = N;
  }
  void grow(uint32_t capacity) {
    T* const larger = std::allocator<T>().allocate(capacity);
    std::uninitialized_copy_n(data_, size_, larger);
    release();
    data_ = larger;
    capacity_ = capacity;
  }
  void assign(const InlineVector& other) {
    size_ = 0;
    if (other.size_ > capacity_) grow(other.size_);
    std::uninitialized_copy_n(other.data_, other.size_, data_);
    size_ = other.size_;
  }
  void take(InlineVector& other) {
    if (other.data_ == other.inside()) {
      assign(other);
    } else {
      release();
      data_ = std::exchange(other.data_, other.inside());
      capacity_ = std::exchange(other.capacity_, N);
      size_ = other.size_;
    }
    other.size_ = 0;
  }

  alignas(T) std::byte room_[N * sizeof(T)];
  T* data_ = inside();
  uint32_t size_ = 0;
  uint32_t capacity_ = N;
};

}  // namespace appy
