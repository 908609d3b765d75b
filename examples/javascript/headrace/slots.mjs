// Places for runs, shared by all queues of a worker, which take turns for them.

/** Turns that a queue gets, in proportion to others that have runs waiting. */
const WEIGHTS = { high: 9, normal: 3, low: 1 };

export class Slots {
  #waiting = []; // {queue, grant}
  #turn = 0;

  constructor(count) {
    this.left = count;
    this.queues = 0;
  }

  /** Whether there are fewer places left than queues that may want one. */
  get scarce() {
    return this.left < this.queues - 1;
  }

  /** Returns when the queue has got a place: the one next that has had the fewest turns. */
  async take(queue) {
    // One that has long had nothing to do has saved up nothing.
    queue.turn = Math.max(queue.turn ?? 0, this.#turn);
    const granted = new Promise((grant) => this.#waiting.push({ queue, grant }));
    this.#hand();
    await granted;
  }

  giveBack() {
    this.left += 1;
    this.#hand();
  }

  #hand() {
    while (this.left > 0 && this.#waiting.length > 0) {
      this.#waiting.sort((one, other) => one.queue.turn - other.queue.turn);
      const { queue, grant } = this.#waiting.shift();
      this.left -= 1;
      this.#turn = queue.turn;
      queue.turn += 1 / (WEIGHTS[queue.consumer.split("@")[2]] ?? WEIGHTS.normal);
      grant();
    }
  }
}
