#include "shm/pool/slab.h"

#include <boost/interprocess/indexes/iset_index.hpp>
#include <boost/interprocess/managed_external_buffer.hpp>
#include <boost/interprocess/mem_algo/rbtree_best_fit.hpp>
#include <boost/interprocess/sync/mutex_family.hpp>
#include <new>
#include <string>

#include "shm/base/check.h"

namespace omnistage::shm {

namespace bip = boost::interprocess;
// One process allocates: no mutex in shared memory. Blocks have no names, the index stays empty.
using ManagedBuffer =
    bip::basic_managed_external_buffer<char, bip::rbtree_best_fit<bip::null_mutex_family>,
                                       bip::iset_index>;

constexpr uint64_t kBlockAlign = 64;

struct Slab::Allocator {
  Allocator(void* base, uint64_t bytes) : buffer(bip::create_only, base, bytes) {}
  ManagedBuffer buffer;
};

Slab::Slab(uint32_t number, OwnedSegment segment) : number_(number), segment_(std::move(segment)) {}
Slab::~Slab() = default;

Result<std::unique_ptr<Slab>> Slab::create(uint32_t number, uint64_t payload_bytes) {
  SegmentHeader header{};
  header.kind = static_cast<uint32_t>(SegmentKind::kSlab);
  header.slab = number;
  const uint64_t bytes =
      (payload_bytes + kSlabOverheadBytes + kSegmentPage - 1) / kSegmentPage * kSegmentPage;
  header.data_offset = kSegmentPage;
  header.data_bytes = bytes - kSegmentPage;
  auto segment = OwnedSegment::create("omnistage-slab-" + std::to_string(number), bytes, header);
  if (!segment.ok()) return segment.status();
  std::unique_ptr<Slab> slab(new Slab(number, std::move(*segment)));
  try {
    slab->allocator_ =
        std::make_unique<Allocator>(slab->segment_.base() + kSegmentPage, bytes - kSegmentPage);
  } catch (const std::exception& error) {
    return internal_error(std::string("slab allocator: ") + error.what());
  }
  return slab;
}

std::byte* Slab::allocate(uint64_t bytes) {
  // Whole lines, so that no two blocks share one.
  const uint64_t rounded = (bytes + kBlockAlign - 1) / kBlockAlign * kBlockAlign;
  void* memory = allocator_->buffer.allocate_aligned(rounded, kBlockAlign, std::nothrow);
  if (memory == nullptr) return nullptr;
  auto* block = static_cast<std::byte*>(memory);
  blocks_[static_cast<uint64_t>(block - segment_.base())] = Block{bytes, true, 0};
  return block;
}

Block* Slab::find(uint64_t offset, uint64_t bytes, uint64_t& start) {
  auto at = blocks_.upper_bound(offset);
  if (at == blocks_.begin()) return nullptr;
  --at;
  const uint64_t inside = offset - at->first;
  if (inside > at->second.bytes || bytes > at->second.bytes - inside) return nullptr;
  start = at->first;
  return &at->second;
}

void Slab::free_if_unneeded(uint64_t start) {
  auto at = blocks_.find(start);
  OMS_CHECK(at != blocks_.end(), "a pool block is freed twice");
  if (at->second.needed()) return;
  blocks_.erase(at);
  allocator_->buffer.deallocate(segment_.base() + start);
}

}  // namespace omnistage::shm
