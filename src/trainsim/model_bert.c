/* model_bert.c - BERT for pre-training: vocabulary padded to 30,528, 64 tokens a sentence, the
 * decoder's weight tied to the word embedding.
 *
 * The tied weight is one tensor, placed where the forward pass needs it first: its gradient is
 * complete only at the end of backward. The decoder's multiply-accumulates are counted at its bias;
 * those of attention (no parameters) at the output projection that follows. */
#include "trainsim/model.h"

enum { TOKENS = 64, VOCABULARY = 30528, POSITIONS = 512 };

/* A table lookup: parameters but no multiply-accumulates. */
static void embedding(struct tt_model_builder *b, const char *name, uint64_t rows, uint32_t hidden)
{
    tt_trainsim_build_layer(b, name, TT_KIND_EMBEDDING, 0);
    tt_trainsim_build_tensor(b, "weight", rows * hidden);
}

/* A fully connected layer whose time includes work that has no parameters. */
static void fc_with(struct tt_model_builder *b, const char *name, uint32_t in, uint32_t out,
                    double more_macs)
{
    tt_trainsim_build_layer(b, name, TT_KIND_FC, (double)in * out * TOKENS + more_macs);
    tt_trainsim_build_tensor(b, "weight", (uint64_t)in * out);
    tt_trainsim_build_tensor(b, "bias", out);
}

/* Every fully connected layer runs once per token. */
static void encoder_layer(struct tt_model_builder *b, uint32_t hidden, uint32_t inner)
{
    tt_trainsim_build_fc(b, "query", hidden, hidden, TOKENS);
    tt_trainsim_build_fc(b, "key", hidden, hidden, TOKENS);
    tt_trainsim_build_fc(b, "value", hidden, hidden, TOKENS);
    /* Scores and weighted values: two products of TOKENS x TOKENS x hidden. */
    fc_with(b, "attention", hidden, hidden, 2.0 * TOKENS * TOKENS * hidden);
    tt_trainsim_build_norm(b, "attention_norm", hidden);
    tt_trainsim_build_fc(b, "intermediate", hidden, inner, TOKENS);
    tt_trainsim_build_fc(b, "output", inner, hidden, TOKENS);
    tt_trainsim_build_norm(b, "output_norm", hidden);
}

/* Height is the number of tokens: norms then count one value per token and channel. */
static void bert(struct tt_model_builder *b, uint32_t layers, uint32_t hidden)
{
    b->height = TOKENS;
    b->width = 1;
    embedding(b, "word", VOCABULARY, hidden);
    embedding(b, "position", POSITIONS, hidden);
    embedding(b, "token_type", 2, hidden);
    tt_trainsim_build_norm(b, "embedding_norm", hidden);
    for (uint32_t i = 0; i < layers; i++) {
        snprintf(b->prefix, sizeof b->prefix, "layer%u.", i);
        encoder_layer(b, hidden, 4 * hidden);
    }
    b->prefix[0] = '\0';
    tt_trainsim_build_fc(b, "pooler", hidden, hidden, 1);
    tt_trainsim_build_fc(b, "transform", hidden, hidden, TOKENS);
    tt_trainsim_build_norm(b, "transform_norm", hidden);
    tt_trainsim_build_layer(b, "decoder", TT_KIND_OTHER, (double)VOCABULARY * hidden * TOKENS);
    tt_trainsim_build_tensor(b, "bias", VOCABULARY);
    tt_trainsim_build_fc(b, "seq_relationship", hidden, 2, 1);
}

void tt_trainsim_build_bert_base(struct tt_model_builder *b)
{
    bert(b, 12, 768);
}

void tt_trainsim_build_bert_large(struct tt_model_builder *b)
{
    bert(b, 24, 1024);
}
