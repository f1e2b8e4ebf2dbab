// What the harnesses of the tops share, in front of each: numbers of the protocol on stdin and stdout,
// random stalls, channels that must be stable.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <algorithm>
#include <deque>
#include <set>
#include <string>
#include <vector>

#include "Vridgeline_accelerator.h"
#include "verilated.h"

using Bytes = std::vector<uint8_t>;

static uint64_t get() {
    uint64_t value;
    if (fread(&value, 8, 1, stdin) != 1) exit(3);
    return value;
}

static void put(uint64_t value) { fwrite(&value, 8, 1, stdout); }

// xorshift64*; a seed of 0 never stalls.
struct Random {
    uint64_t state;
    uint64_t next() {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        return (state * 2685821657736338717ull) >> 33;
    }
    bool stalls() { return state && next() % 4 == 0; }
    uint64_t below(uint64_t n) { return state ? next() % n : 0; }
};

// A channel's payload must not change, nor valid fall, until ready has been seen.
struct Stable {
    const char* name;
    bool waiting = false;
    Bytes shown;
    template <class F> void check(bool valid, bool ready, const Bytes& payload, F broken) {
        if (waiting && !valid) broken(std::string(name) + ": valid fell before ready");
        if (waiting && valid && payload != shown) broken(std::string(name) + ": payload changed");
        waiting = valid && !ready;
        shown = payload;
    }
};

template <class... T> static Bytes packed(const T&... values) {
    Bytes all;
    (
        [&] {
            const uint8_t* first = reinterpret_cast<const uint8_t*>(&values);
            all.insert(all.end(), first, first + sizeof(values));
        }(),
        ...);
    return all;
}

double sc_time_stamp() { return 0; }
