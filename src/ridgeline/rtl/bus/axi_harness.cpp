// A host processor and a memory around the Verilated AXI top, served over stdin and stdout.
//
// Commands are a letter and its operands, little endian, 64 bits each:
//   w address value    write a register             -> 1
//   r address          read a register              -> value
//   W address size ... write memory                 -> 1
//   R address size     read memory                  -> size bytes
//   p cycles           clock until irq, or so long  -> irq
//   c                                               -> cycles so far
//   f address size     answer reads and writes there with an error -> 1
//   h                  memory answers nothing from now on -> 1
//   v                  what of AXI's rules was broken -> length, text
// Everything that may stall does so at random where the seed is not 0. Writes reach memory when they
// are answered, as late as may be; reads see memory when they are asked, as early as may be: who
// reads what is not answered yet sees the old bytes.
//
// Defined outside: DATA_BYTES, BURST_BEATS, MEMORY_BASE, MEMORY_BYTES, LATENCY.
struct Burst {
    uint64_t id, address, beats, due;
    Bytes data;           // of a read: as memory was when it was asked
    std::vector<Bytes> written, strobes;
    uint64_t sent = 0;
    bool faulty = false;
};

class Board {
  public:
    Board(uint64_t seed) : random_{seed}, memory_(MEMORY_BYTES) {
        top_.aresetn = 0;
        quiet_inputs();
        for (int i = 0; i < 2; i++) clock();
        top_.aresetn = 1;
        for (int i = 0; i < 2; i++) clock();
        started_ = true;
    }

    void write(uint32_t address, uint32_t value) {
        uint64_t address_at = cycle_ + random_.below(6), data_at = cycle_ + random_.below(6);
        bool address_taken = false, data_taken = false, answered = false;
        while (!answered) {
            top_.s_axi_awvalid = !address_taken && cycle_ >= address_at;
            top_.s_axi_awaddr = address;
            top_.s_axi_wvalid = !data_taken && cycle_ >= data_at;
            top_.s_axi_wdata = value;
            top_.s_axi_wstrb = 15;
            top_.s_axi_bready = !random_.stalls();
            prepare();
            address_taken |= top_.s_axi_awvalid && top_.s_axi_awready;
            data_taken |= top_.s_axi_wvalid && top_.s_axi_wready;
            answered = top_.s_axi_bvalid && top_.s_axi_bready;
            if (top_.s_axi_bvalid && !(address_taken && data_taken)) broken("s_axi_b: too early");
            finish();
        }
        quiet_inputs();
    }

    uint32_t read(uint32_t address) {
        uint64_t at = cycle_ + random_.below(6);
        bool taken = false;
        for (;;) {
            top_.s_axi_arvalid = !taken && cycle_ >= at;
            top_.s_axi_araddr = address;
            top_.s_axi_rready = !random_.stalls();
            prepare();
            taken |= top_.s_axi_arvalid && top_.s_axi_arready;
            bool answered = top_.s_axi_rvalid && top_.s_axi_rready;
            uint32_t value = top_.s_axi_rdata;
            if (top_.s_axi_rvalid && !taken) broken("s_axi_r: too early");
            finish();
            if (answered) {
                quiet_inputs();
                return value;
            }
        }
    }

    bool run(uint64_t most) {
        for (uint64_t i = 0; i < most && !top_.irq; i++) clock();
        return top_.irq;
    }

    uint64_t cycle() const { return cycle_; }
    Bytes& memory() { return memory_; }
    const std::string& faults() const { return faults_; }
    void hang() { hangs_ = true; }
    void poison(uint64_t first, uint64_t size) { poison_ = first, poison_end_ = first + size; }

  private:
    void broken(const std::string& what) {
        if (faults_.size() < 4000)
            faults_ += "cycle " + std::to_string(cycle_) + ": " + what + "\n";
    }

    void quiet_inputs() {
        top_.s_axi_awvalid = top_.s_axi_wvalid = top_.s_axi_bready = 0;
        top_.s_axi_arvalid = top_.s_axi_rready = 0;
    }

    void clock() {
        prepare();
        finish();
    }

    // Memory's side of the master's channels, then what all see in this cycle.
    void prepare() {
        top_.m_axi_arready = !random_.stalls();
        top_.m_axi_awready = !random_.stalls();
        top_.m_axi_wready = !random_.stalls();
        show_read();
        show_answer();
        top_.aclk = 0;
        top_.eval();
    }

    void show_read() {
        if (!reading_ && !hangs_) {
            // Answers of different IDs come in any order, and in between each other.
            std::vector<size_t> ready;
            std::set<uint64_t> seen;
            for (size_t i = 0; i < reads_.size(); i++)
                if (seen.insert(reads_[i].id).second && reads_[i].due <= cycle_) ready.push_back(i);
            if (!ready.empty() && !random_.stalls())
                reading_ = &reads_[ready[random_.below(ready.size())]];
        }
        top_.m_axi_rvalid = reading_ != nullptr;
        if (!reading_) return;
        top_.m_axi_rid = reading_->id;
        memcpy(&top_.m_axi_rdata, &reading_->data[reading_->sent * DATA_BYTES], DATA_BYTES);
        top_.m_axi_rresp = reading_->faulty ? 2 : 0;
        top_.m_axi_rlast = reading_->sent + 1 == reading_->beats;
    }

    void show_answer() {
        if (!answering_ && !hangs_ && !whole_.empty() && whole_.front().due <= cycle_)
            answering_ = !random_.stalls();
        top_.m_axi_bvalid = answering_;
        if (!answering_) return;
        top_.m_axi_bid = whole_.front().id;
        top_.m_axi_bresp = whole_.front().faulty ? 2 : 0;
    }

    void finish() {
        if (started_) {
            check();
            take_reads();
            take_writes();
        }
        top_.aclk = 1;
        top_.eval();
        cycle_++;
    }

    void check() {
        auto broke = [this](const std::string& what) { broken(what); };
        Bytes data(DATA_BYTES);
        memcpy(data.data(), &top_.m_axi_wdata, DATA_BYTES);
        Bytes strobe = packed(top_.m_axi_wstrb);
        for (int i = 0; i < DATA_BYTES; i++)
            if (!(strobe[i / 8] >> i % 8 & 1)) data[i] = 0;
        Bytes beat = packed(top_.m_axi_wlast);
        beat.insert(beat.end(), strobe.begin(), strobe.end());
        beat.insert(beat.end(), data.begin(), data.end());
        aw_.check(top_.m_axi_awvalid, top_.m_axi_awready,
                  packed(top_.m_axi_awaddr, top_.m_axi_awlen, top_.m_axi_awid), broke);
        ar_.check(top_.m_axi_arvalid, top_.m_axi_arready,
                  packed(top_.m_axi_araddr, top_.m_axi_arlen, top_.m_axi_arid), broke);
        w_.check(top_.m_axi_wvalid, top_.m_axi_wready, beat, broke);
        b_.check(top_.s_axi_bvalid, top_.s_axi_bready, packed(top_.s_axi_bresp), broke);
        r_.check(top_.s_axi_rvalid, top_.s_axi_rready, packed(top_.s_axi_rdata, top_.s_axi_rresp),
                 broke);
    }

    Burst burst(const char* name, uint64_t id, uint64_t address, uint64_t length, uint64_t size,
                uint64_t kind) {
        Burst one{id, address, length + 1, cycle_ + 1 + LATENCY + random_.below(20), {}, {}, {}};
        uint64_t bytes = one.beats * DATA_BYTES;
        std::string where = std::string(name) + ": ";
        if (one.beats > BURST_BEATS) broken(where + "longer than asked for");
        if (address % DATA_BYTES) broken(where + "address within a beat");
        if (address / 4096 != (address + bytes - 1) / 4096) broken(where + "crosses a page");
        if ((1ull << size) != DATA_BYTES) broken(where + "size is not the bus's");
        if (kind != 1) broken(where + "does not increment");
        bool outside = address < MEMORY_BASE || address + bytes > MEMORY_BASE + MEMORY_BYTES;
        one.faulty = outside || (address < poison_end_ && address + bytes > poison_);
        return one;
    }

    void take_reads() {
        if (top_.m_axi_arvalid && top_.m_axi_arready) {
            Burst one = burst("ar", top_.m_axi_arid, top_.m_axi_araddr, top_.m_axi_arlen,
                              top_.m_axi_arsize, top_.m_axi_arburst);
            one.data.resize(one.beats * DATA_BYTES);
            if (!one.faulty)
                memcpy(one.data.data(), &memory_[one.address - MEMORY_BASE], one.data.size());
            // A reference into the queue must stay good: nothing moves while one is shown.
            reads_.push_back(one);
        }
        if (top_.m_axi_rvalid && top_.m_axi_rready) {
            reading_->sent++;
            if (reading_->sent == reading_->beats) {
                for (auto it = reads_.begin(); it != reads_.end(); ++it)
                    if (&*it == reading_) {
                        reads_.erase(it);
                        break;
                    }
            }
            reading_ = nullptr;
        }
    }

    void take_writes() {
        if (top_.m_axi_awvalid && top_.m_axi_awready)
            asked_.push_back(burst("aw", top_.m_axi_awid, top_.m_axi_awaddr, top_.m_axi_awlen,
                                   top_.m_axi_awsize, top_.m_axi_awburst));
        if (top_.m_axi_wvalid && top_.m_axi_wready) {
            Bytes data(DATA_BYTES);
            memcpy(data.data(), &top_.m_axi_wdata, DATA_BYTES);
            beats_.push_back({data, packed(top_.m_axi_wstrb), bool(top_.m_axi_wlast)});
        }
        while (!asked_.empty() && !beats_.empty()) {
            Burst& one = asked_.front();
            Beat& beat = beats_.front();
            one.written.push_back(beat.data);
            one.strobes.push_back(beat.strobe);
            bool ends = one.written.size() == one.beats;
            if (beat.last != ends) broken("w: last at the wrong beat");
            beats_.pop_front();
            if (!ends) continue;
            one.due = cycle_ + 1 + random_.below(30);
            whole_.push_back(one);
            asked_.pop_front();
        }
        if (top_.m_axi_bvalid && top_.m_axi_bready) {
            apply(whole_.front());
            whole_.pop_front();
            answering_ = false;
        }
    }

    void apply(const Burst& one) {
        if (one.faulty) return;
        for (uint64_t beat = 0; beat < one.beats; beat++)
            for (int i = 0; i < DATA_BYTES; i++)
                if (one.strobes[beat][i / 8] >> i % 8 & 1)
                    memory_[one.address - MEMORY_BASE + beat * DATA_BYTES + i] =
                        one.written[beat][i];
    }

    struct Beat {
        Bytes data, strobe;
        bool last;
    };

    Vridgeline_accelerator top_;
    Random random_;
    Bytes memory_;
    uint64_t cycle_ = 0, poison_ = 0, poison_end_ = 0;
    bool started_ = false, answering_ = false, hangs_ = false;
    std::deque<Burst> reads_, asked_, whole_;
    Burst* reading_ = nullptr;
    std::deque<Beat> beats_;
    Stable aw_{"aw"}, ar_{"ar"}, w_{"w"}, b_{"s_axi_b"}, r_{"s_axi_r"};
    std::string faults_;
};

static void need(uint64_t address, uint64_t size) {
    if (address < MEMORY_BASE || address + size > MEMORY_BASE + MEMORY_BYTES) exit(5);
}

int main(int argc, char** argv) {
    if (argc != 2) return 2;
    Board board(strtoull(argv[1], nullptr, 10));
    for (int command; (command = getchar()) != EOF; fflush(stdout)) {
        uint64_t address, size;
        switch (command) {
            case 'w':
                address = get();
                board.write(address, get());
                put(1);
                break;
            case 'r':
                put(board.read(get()));
                break;
            case 'W':
                address = get(), size = get();
                need(address, size);
                if (size && fread(&board.memory()[address - MEMORY_BASE], 1, size, stdin) != size)
                    return 3;
                put(1);
                break;
            case 'R':
                address = get(), size = get();
                need(address, size);
                fwrite(board.memory().data() + (address - MEMORY_BASE), 1, size, stdout);
                break;
            case 'p':
                put(board.run(get()));
                break;
            case 'c':
                put(board.cycle());
                break;
            case 'f':
                address = get();
                board.poison(address, get());
                put(1);
                break;
            case 'h':
                board.hang();
                put(1);
                break;
            case 'v':
                put(board.faults().size());
                fwrite(board.faults().data(), 1, board.faults().size(), stdout);
                break;
            default:
                return 4;
        }
    }
    return 0;
}
