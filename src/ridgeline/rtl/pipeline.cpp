// Streams pixels through a Verilated pipeline: says in which cycle each was taken, and each that came
// out with its cycle. argv: given, made, pixels in, pixels out, seed of random stalls (0: none), most
// cycles without anything coming out.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "Vridgeline_accelerator.h"
#include "verilated.h"

double sc_time_stamp() { return 0; }

// xorshift64*; a seed of 0 never stalls.
struct Stalls {
    uint64_t state;
    bool now() {
        if (!state) return false;
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        return (state * 2685821657736338717ull) >> 63;
    }
};

int main(int argc, char **argv) {
    if (argc != 7) return 2;
    FILE *in = std::fopen(argv[1], "rb");
    FILE *out = std::fopen(argv[2], "wb");
    if (!in || !out) return 2;
    const uint64_t count = std::strtoull(argv[3], nullptr, 10);
    const uint64_t wanted = std::strtoull(argv[4], nullptr, 10);
    Stalls stalls{std::strtoull(argv[5], nullptr, 10)};
    const uint64_t patience = std::strtoull(argv[6], nullptr, 10);
    static Vridgeline_accelerator top;
    const size_t given = sizeof(top.in_pixel), made = sizeof(top.out_pixel);
    std::vector<uint8_t> pixels(count * given), results(wanted * made);
    if (count && std::fread(pixels.data(), given, count, in) != count) return 3;
    std::vector<uint64_t> taken, came;
    top.in_valid = top.out_ready = 0;
    top.rst = 1;
    for (int i = 0; i < 2; i++) {
        top.clk = 0;
        top.eval();
        top.clk = 1;
        top.eval();
    }
    top.rst = 0;
    top.clk = 0;
    bool shown = false;
    uint64_t last = 0;
    for (uint64_t cycle = 0; came.size() < wanted && cycle - last <= patience; cycle++) {
        shown = taken.size() < count && (shown || !stalls.now());
        top.in_valid = shown;
        if (shown) std::memcpy(&top.in_pixel, &pixels[taken.size() * given], given);
        top.out_ready = !stalls.now();
        top.eval();
        if (top.in_valid && top.in_ready) {
            taken.push_back(cycle);
            shown = false;
        }
        if (top.out_valid && top.out_ready) {
            std::memcpy(&results[came.size() * made], &top.out_pixel, made);
            came.push_back(cycle);
            last = cycle;
        }
        top.clk = 1;
        top.eval();
        top.clk = 0;
    }
    const uint64_t counts[2] = {taken.size(), came.size()};
    std::fwrite(counts, 8, 2, out);
    std::fwrite(taken.data(), 8, taken.size(), out);
    std::fwrite(came.data(), 8, came.size(), out);
    std::fwrite(results.data(), made, came.size(), out);
    top.final();
    return std::fclose(out) ? 4 : 0;
}
