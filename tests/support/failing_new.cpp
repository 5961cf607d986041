// Preloaded by tests/stress/allocations.py: one allocation of C++ code in this thread fails, the
// one that is asked for.
#include <cstddef>
#include <cstdlib>
#include <new>

static thread_local bool counting = false;
static thread_local long seen = 0, failing = -1;

extern "C" void count_allocations(long fail_at) {
    counting = true;
    seen = 0;
    failing = fail_at;
}

extern "C" long stop_counting() {
    counting = false;
    return seen;
}

static void* allocated(std::size_t size, std::size_t alignment) {
    if (counting && seen++ == failing) {
        return nullptr;
    }
    if (alignment <= alignof(std::max_align_t)) {
        return std::malloc(size ? size : 1);
    }
    return std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

static void* checked(void* memory) {
    if (!memory) {
        throw std::bad_alloc();
    }
    return memory;
}

void* operator new(std::size_t size) {
    return checked(allocated(size, 1));
}
void* operator new[](std::size_t size) {
    return checked(allocated(size, 1));
}
void* operator new(std::size_t size, std::align_val_t align) {
    return checked(allocated(size, std::size_t(align)));
}
void* operator new[](std::size_t size, std::align_val_t align) {
    return checked(allocated(size, std::size_t(align)));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
    return allocated(size, 1);
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
    return allocated(size, 1);
}
void operator delete(void* memory) noexcept {
    std::free(memory);
}
void operator delete[](void* memory) noexcept {
    std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
    std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
    std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
    std::free(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
    std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
    std::free(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
    std::free(memory);
}
